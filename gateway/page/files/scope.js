// A Scope is what a view lives in: its requests and streams end when another
// view takes its place.
export class Scope {
  constructor(tree, line, say) {
    this.tree = tree;
    this.line = line;
    this.say = say;
    this.control = new AbortController();
    this.signal = this.control.signal;
  }

  end() {
    this.control.abort();
  }

  list(path) {
    return this.tree.list(path, this.signal);
  }

  json(path) {
    return this.tree.json(path, this.signal);
  }

  text(path, offset) {
    return this.tree.text(path, this.signal, offset);
  }

  size(path) {
    return this.tree.size(path, this.signal);
  }

  // bytes follows a stream; see Line.follow. It returns what stops it.
  bytes(path, offset, on) {
    if (this.signal.aborted) return () => {};
    const stop = this.line.follow(path, offset, on);
    this.signal.addEventListener("abort", stop);
    return stop;
  }

  // follow is bytes for text: on.text(text).
  follow(path, offset, on) {
    const decoder = new TextDecoder();
    return this.bytes(path, offset, { ...on, data: (data) => on.text(decoder.decode(data, { stream: true })) });
  }

  // tail follows a stream from so many bytes before its end, whole lines only.
  async tail(path, most, on) {
    const size = await this.size(path);
    let skip = size > most;
    return this.follow(path, Math.max(0, size - most), {
      ...on,
      text: (text) => {
        if (skip) {
          const n = text.indexOf("\n") + 1;
          if (!n) return;
          skip = false;
          text = text.slice(n);
        }
        on.text(text);
      },
    });
  }

  // refresh calls fn now, and again after something has happened to an agent
  // (to any, without a name), but one call at a time.
  async refresh(agent, fn) {
    let running = false, again = false, timer;
    const run = async () => {
      if (running) return void (again = true);
      running = true;
      do {
        again = false;
        await this.try(fn);
      } while (again && !this.signal.aborted);
      running = false;
    };
    const soon = () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.signal.aborted || run(), 120);
    };
    const path = agent ? `/agents/${agent}/events` : "/events";
    const from = agent ? await this.size(path) : 0;
    this.bytes(path, from, { data: soon, again: soon });
    await run();
  }

  // try does what may be refused, and says why. It returns whether it was not.
  async try(fn) {
    try {
      await fn();
      return true;
    } catch (err) {
      if (!this.signal.aborted) this.say(err.message, true);
      return false;
    }
  }
}
