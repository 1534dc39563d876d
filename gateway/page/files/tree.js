// The tree over HTTP: every function is a request on a file.

// A Refusal is an answer that is an error; code and message are the daemon's.
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// What is refused to a HEAD has no text.
const meanings = { 401: "this is not permitted", 403: "this is not permitted" };
const missing = "there is no such file";

// url is where a file is: a path has names between slashes.
export const url = (path) => "/" + path.split("/").filter(Boolean).map(encodeURIComponent).join("/");

export class Tree {
  // denied is called when the token is not taken any longer.
  constructor(token, denied) {
    this.token = token;
    this.denied = denied;
  }

  // ask sends a request and returns the answer, or throws a Refusal.
  async ask(method, path, { body, query = "", headers = {}, signal } = {}) {
    if (this.token) headers = { ...headers, Authorization: "Bearer " + this.token };
    let answer;
    try {
      answer = await fetch(url(path) + query, { method, body, headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error" });
    } catch (err) {
      if (signal?.aborted) throw err;
      throw new Refusal(0, "unavailable", "the daemon cannot be reached");
    }
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({}));
    if (answer.status === 401) this.denied?.(problem.detail);
    const meaning = answer.status === 404 ? `${path}: ${missing}` : problem.detail || problem.title || meanings[answer.status] || `status ${answer.status}`;
    throw new Refusal(answer.status, problem.code ?? "", meaning);
  }

  async list(path, signal) {
    return (await (await this.ask("GET", path, { signal, headers: { Accept: "application/json" } })).json()).entries;
  }

  async json(path, signal) {
    return (await this.ask("GET", path, { signal })).json();
  }

  // text is what there is of a file; of a stream, from an offset on.
  async text(path, signal, offset = 0) {
    return (await this.ask("GET", path, { signal, query: `?wait=0s&offset=${offset}` })).text();
  }

  // size is the length of a stream as it is now.
  async size(path, signal) {
    return Number((await this.ask("HEAD", path, { signal })).headers.get("X-Agent9-Size") ?? 0);
  }

  // post writes to a Message file and returns the reply.
  async post(path, body) {
    return (await (await this.ask("POST", path, { body })).text()).trimEnd();
  }
}
