// The streams of a page come on one WebSocket, as a browser opens only a few
// connections to a server. When it is cut off, it is made anew, and every
// stream goes on at the offset where it was.

const credit = 128 << 10; // bytes of a stream that may be under way
const final = new Set(["not-found", "forbidden", "invalid", "not-a-directory", "is-a-directory", "unsupported"]);

export class Line {
  // state is told whether there is a connection: "on", or "off".
  constructor(tree, state) {
    this.tree = tree;
    this.state = state;
    this.follows = new Set();
    this.wait = 0;
    this.online = () => this.timer && this.connect();
    addEventListener("online", this.online);
  }

  // follow gives on the bytes of a stream from an offset on as they come:
  // on.data(bytes, offset), then on.end(), or on.failed(reason). on.again()
  // tells that the connection was made anew. It returns what stops it.
  follow(path, offset, on) {
    const f = { path, offset, on };
    this.follows.add(f);
    if (this.socket?.readyState === WebSocket.OPEN) this.begin(f);
    else if (!this.socket && !this.timer) this.connect();
    return () => this.stop(f);
  }

  close() {
    this.follows.clear();
    removeEventListener("online", this.online);
    clearTimeout(this.timer);
    this.closed = true;
    this.socket?.close();
  }

  connect() {
    clearTimeout(this.timer);
    this.timer = null;
    const socket = new WebSocket(location.origin.replace(/^http/, "ws") + "/", ["agent9", ...(this.tree.token ? ["bearer." + this.tree.token] : [])]);
    this.socket = socket;
    this.waiting = new Map(); // what the answers to requests are for
    this.last = 0;
    socket.onopen = () => {
      this.wait = 0;
      this.state("on");
      for (const f of this.follows) {
        if (f.begun) f.on.again?.();
        this.begin(f);
      }
    };
    socket.onmessage = ({ data }) => this.answered(JSON.parse(data));
    socket.onclose = () => this.lost();
  }

  // lost comes back later; without a right to, the request says so.
  lost() {
    this.socket = null;
    if (this.closed) return;
    this.state("off");
    this.wait = Math.min(this.wait * 2 || 250, 8000);
    this.timer = setTimeout(() => {
      this.tree.ask("HEAD", "/agents").then(() => this.connect(), () => this.closed || this.lost());
    }, this.wait);
  }

  send(frame, answer) {
    frame.id = ++this.last;
    if (answer) this.waiting.set(frame.id, answer);
    this.socket.send(JSON.stringify(frame));
    return frame.id;
  }

  begin(f) {
    f.begun = true;
    f.file = this.send({ op: "open", path: f.path, mode: "r" }, (reply) => {
      if (reply.error) return this.over(f, reply);
      f.watch = this.send({ op: "watch", file: f.file, offset: f.offset, credit }, (part) => this.came(f, part));
    });
  }

  came(f, part) {
    if (part.error || part.eof) return this.over(f, part);
    const data = part.base64 ? Uint8Array.from(atob(part.base64), (c) => c.charCodeAt(0)) : new TextEncoder().encode(part.data ?? "");
    const at = part.offset ?? 0;
    f.offset = at + data.length;
    this.send({ op: "credit", of: f.watch, credit: data.length });
    if (this.follows.has(f)) f.on.data(data, at);
    return false;
  }

  // over is the end of a stream, or a reason. What only the connection is the
  // cause of goes on with the next one.
  over(f, { error }) {
    if (!this.follows.has(f) || (error && !final.has(error.code))) return true;
    this.follows.delete(f);
    if (error) f.on.failed?.(error.reason || error.code);
    else f.on.end?.();
    return true;
  }

  answered(frame) {
    const answer = this.waiting.get(frame.id);
    if (answer && answer(frame) !== false) this.waiting.delete(frame.id);
  }

  stop(f) {
    if (!this.follows.delete(f) || this.socket?.readyState !== WebSocket.OPEN || !f.file) return;
    if (f.watch) this.send({ op: "cancel", of: f.watch });
    this.send({ op: "drop", file: f.file });
  }
}
