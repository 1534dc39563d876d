// A conversation with an agent: its transcript, and the answer as it comes.
import { clock, el, hash, Lines, pane } from "./dom.js";

const past = 256 << 10; // bytes of the transcript that are shown

export async function talk(scope, main, agent, [number]) {
  const root = `/agents/${agent}/sessions`;
  const list = el("ul", { class: "list" });
  const said = el("div", { class: "said", role: "log", "aria-live": "polite", "aria-label": "Conversation", tabindex: "0" });
  const prompt = el("textarea", { id: "prompt", rows: "3", placeholder: `to ${agent}` });
  const stop = el("button", { type: "button", class: "no", hidden: true, click: () => scope.try(() => scope.tree.post(`${root}/${number}/ctl`, "cancel")) }, "Stop");
  const halted = el("p", { class: "wrong", hidden: true }, `${agent} is stopped, and answers nothing before it is started. `,
    el("button", { type: "button", click: () => scope.try(() => scope.tree.post(`/agents/${agent}/ctl`, "start")) }, "Start"));
  const form = el("form", { class: "prompt", submit: (event) => { event.preventDefault(); send(); } },
    halted, el("label", { for: "prompt" }, "Prompt"), prompt,
    el("div", { class: "inline" }, el("button", null, "Send"), stop, el("span", { class: "hint" }, "Enter sends, Shift+Enter begins a line")));
  prompt.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  const state = el("span", { class: "hint" });
  main.classList.add("columns", "side");
  const title = pane(number ? `Session ${number}` : "New session", [state], said, form);
  title.classList.add("tall");
  main.append(pane("Sessions", el("a", { href: hash("agents", agent, "talk") }, "new"), list), title);

  async function send() {
    const text = prompt.value.trim();
    if (!text) return;
    // What looks like JSON is said as text all the same.
    const body = /^[{[]/.test(text) ? JSON.stringify({ content: text }) : text;
    await scope.try(async () => {
      const n = number ?? (await scope.tree.post(root + "/new", JSON.stringify({ title: text.split("\n")[0].slice(0, 60) })));
      await scope.tree.post(`${root}/${n}/prompt`, body);
      prompt.value = "";
      if (!number) location.hash = hash("agents", agent, "talk", n);
    });
  }

  if (number) converse(scope, said, `${root}/${number}`).catch((err) => scope.signal.aborted || scope.say(err.message, true));
  else said.append(el("p", { class: "hint" }, `What you say first begins a session with ${agent}.`));
  prompt.focus({ preventScroll: true });
  await scope.refresh(agent, async () => {
    halted.hidden = (await scope.json(`/agents/${agent}/status`)).state !== "stopped";
    const all = (await scope.list(root)).filter((e) => e.kind === "directory").reverse().slice(0, 50);
    const rows = await Promise.all(all.map(async (e) => {
      const s = await scope.json(`${root}/${e.name}/status`).catch(() => null);
      if (s && e.name === number) {
        stop.hidden = !s.running;
        state.textContent = s.state + (s.waiting ? `, ${s.waiting} waiting` : "");
      }
      return s && el("li", null, el("a", { href: hash("agents", agent, "talk", e.name), "aria-current": e.name === number ? "page" : null },
        s.title || `session ${e.name}`, el("span", { class: "hint" }, ` ${s.state === "idle" ? clock(s.active) : s.state}`)));
    }));
    list.replaceChildren(...rows.filter(Boolean));
  });
}

// converse shows the transcript of a session, and between a prompt and its
// answer there the bytes of the stream from where the answer begins.
async function converse(scope, said, root) {
  const answers = new Map(); // by prompt: what is not complete yet
  let streaming = null; // stops the stream
  let live = null; // the answer that comes now

  const size = await scope.size(root + "/transcript");
  let seen = Math.max(0, size - past);

  function add(node) {
    const end = said.scrollHeight - said.scrollTop - said.clientHeight < 40;
    said.append(node);
    if (end) said.scrollTop = said.scrollHeight;
  }

  // begin makes room for an answer, whose bytes begin at from.
  function begin(prompt, from) {
    const text = el("p", { class: "text" });
    const node = el("article", { class: "agent", "aria-busy": "true" }, text);
    live = { node, text, from, decoder: new TextDecoder() };
    answers.set(prompt, live);
    add(node);
    if (seen >= size) stream(from);
  }

  function stream(from) {
    streaming?.();
    streaming = scope.bytes(root + "/stream", from, { data: (data) => {
      // What is behind the answer comes again when its place is known.
      if (!live) return;
      const end = said.scrollHeight - said.scrollTop - said.clientHeight < 40;
      live.text.append(live.decoder.decode(data, { stream: true }));
      if (end) said.scrollTop = said.scrollHeight;
    } });
  }

  const lines = new Lines((text) => {
    let line;
    try {
      line = JSON.parse(text);
    } catch {
      return; // the rest of one whose begin was not asked for
    }
    if (line.role === "user") {
      add(el("article", { class: "user" }, el("p", { class: "by" }, `${line.author ?? ""} ${clock(line.time)}`), el("p", { class: "text" }, line.text ?? content(line.data))));
      begin(line.prompt, line.from);
    } else if (line.role === "assistant") {
      finish(line);
      if (line.outcome === "interrupted") begin(line.prompt, line.to);
    } else if (line.event !== "created") {
      add(el("p", { class: "hint" }, `${line.event} ${clock(line.time)} ${line.reason ?? ""}`));
    }
  });

  function finish(line) {
    let answer = answers.get(line.prompt);
    answers.delete(line.prompt);
    if (!answer) {
      answer = { node: el("article", { class: "agent" }), text: el("p", { class: "text" }) };
      answer.node.append(answer.text);
      add(answer.node);
    }
    if (answer === live) {
      live = null;
      streaming?.();
      streaming = null;
    }
    const end = said.scrollHeight - said.scrollTop - said.clientHeight < 40;
    if (answer.text.textContent !== line.text) answer.text.textContent = line.text ?? "";
    answer.node.removeAttribute("aria-busy");
    if (line.outcome !== "done") answer.node.append(el("p", { class: "wrong" }, [line.outcome, line.reason].filter(Boolean).join(": ")));
    if (end) said.scrollTop = said.scrollHeight;
  }

  scope.bytes(root + "/transcript", seen, {
    data: (data, at) => {
      seen = at + data.length;
      lines.add(decoder.decode(data, { stream: true }));
      if (live && !streaming && seen >= size) stream(live.from);
    },
    failed: (why) => scope.say(why, true),
  });
  const decoder = new TextDecoder();
}

// content is the text of a prompt that is JSON.
const content = (data) => (typeof data?.content === "string" ? data.content : JSON.stringify(data));
