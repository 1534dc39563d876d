// One file, as its kind is.
import { bytes, el, pane, Tail } from "./dom.js";
import { url } from "./tree.js";

const shown = 1 << 20; // bytes of a file
const past = 64 << 10; // bytes of a stream, besides what comes

export async function file(scope, main, names, path, kind) {
  const kinds = { message, stream };
  await (kinds[kind] ?? stored)(scope, main, names.at(-1), path);
}

// stored is a file with a text: to read, and to write where that is allowed.
async function stored(scope, main, name, path) {
  const about = (await scope.list(path.slice(0, path.lastIndexOf("/")) || "/")).find((e) => e.name === name);
  const size = about?.size ?? 0;
  const answer = await scope.tree.ask("GET", path, { signal: scope.signal, headers: size > shown ? { Range: `bytes=0-${shown - 1}` } : {} });
  const tag = { etag: answer.headers.get("ETag") };
  const save = el("button", { click: () => download(scope, path, name) }, "Download");
  if (!answer.headers.get("Content-Type")?.startsWith("text/")) {
    main.append(pane(name, [save], el("p", { class: "hint" }, `${bytes(size)}, which are no text`)));
    return;
  }
  const content = await answer.text();
  if (!about?.perm.includes("w") || size > shown) {
    main.append(pane(name, [save], el("pre", { tabindex: "0", "aria-label": name }, content),
      size > shown ? el("p", { class: "hint" }, `the first ${bytes(shown)} of ${bytes(size)}`) : ""));
    return;
  }
  const text = el("textarea", { class: "edit", "aria-label": name, spellcheck: "false", rows: Math.min(30, Math.max(8, content.split("\n").length + 1)) });
  text.value = content;
  const put = () => scope.try(async () => {
    const answer = await scope.tree.ask("PUT", path, { body: text.value, headers: tag.etag ? { "If-Match": tag.etag } : {} });
    tag.etag = answer.headers.get("ETag");
    scope.say(`${name} is written.`);
  });
  main.append(pane(name, [el("button", { click: put }, "Write"), save], text));
}

async function download(scope, path, name) {
  await scope.try(async () => {
    const at = URL.createObjectURL(await (await scope.tree.ask("GET", path)).blob());
    el("a", { href: at, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(at), 60000);
  });
}

// message is a conversation: what is written, and the reply.
async function message(scope, main, name, path) {
  const text = el("textarea", { id: "message", rows: "5", spellcheck: "false" });
  const reply = el("pre", { role: "log", "aria-live": "polite", "aria-label": "Reply" });
  const write = async (event) => {
    event.preventDefault();
    reply.textContent = "…";
    if (!(await scope.try(async () => (reply.textContent = (await scope.tree.post(path, text.value)) || "(no reply)")))) reply.textContent = "";
  };
  main.append(pane(name, null, el("form", { submit: write }, el("label", { for: "message" }, "Write"), text,
    el("div", { class: "inline" }, el("button", null, "Write"))), el("h3", null, "Reply"), reply));
  if (name === "ctl") reply.textContent = await scope.text(path).catch(() => "");
}

// stream is followed; one that gives something away only when asked.
async function stream(scope, main, name, path) {
  const { headers } = await scope.tree.ask("HEAD", path, { signal: scope.signal });
  const allowed = headers.get("Allow");
  if (allowed && !allowed.includes("GET")) return taking(scope, main, name, path);
  const size = Number(headers.get("X-Agent9-Size") ?? 0);
  const tail = new Tail({ "aria-label": name });
  const state = el("span", { class: "hint", role: "status" }, "following");
  main.append(pane(name, [state], size > past ? el("p", { class: "hint" }, `the last ${bytes(past)} of ${bytes(size)}, and what comes`) : "", tail.node));
  main.lastChild.classList.add("tall");
  scope.follow(path, Math.max(0, size - past), {
    text: (text) => tail.add(text),
    end: () => (state.textContent = "ended"),
    failed: (why) => ((state.textContent = "ended"), scope.say(why, true)),
  });
}

function taking(scope, main, name, path) {
  const out = el("pre", { role: "log", "aria-live": "polite", "aria-label": "What was taken" });
  const take = () => scope.try(async () => {
    const answer = await scope.tree.ask("POST", path, { query: "?wait=1s", signal: scope.signal });
    out.append((await answer.text()) || "(nothing there)\n");
  });
  main.append(pane(name, [el("button", { click: take }, "Take one")], el("p", { class: "hint" }, `Reading ${url(path)} takes something away.`), out));
}
