// Sandboxes and what they print.
import { clock, el, hash, money, pane, Tail } from "./dom.js";

export async function sandboxes(scope, main, agent, [number]) {
  const root = `/agents/${agent}/containers`;
  const list = el("ul", { class: "list" });
  const command = el("input", { id: "command", spellcheck: "false", autocapitalize: "none", placeholder: "echo hello" });
  const run = async (event) => {
    event.preventDefault();
    await scope.try(async () => {
      const n = await scope.tree.post(root + "/new", command.value);
      location.hash = hash("agents", agent, "sandboxes", n);
    });
  };
  main.classList.add("columns", "side");
  const detail = el("div", { class: "whole" });
  main.append(
    pane("Sandboxes", null,
      el("form", { class: "inline", submit: run }, el("label", { for: "command" }, "Run"), command, el("button", null, "Run")), list),
    detail);
  if (number) one(scope, detail, agent, number);
  else detail.append(pane("Output", null, el("p", { class: "hint" }, "Choose a sandbox, or run a command in a new one.")));
  await scope.refresh(agent, async () => {
    const all = (await scope.list(root + "/sessions")).filter((e) => e.kind === "directory").reverse().slice(0, 50);
    const rows = await Promise.all(all.map(async (e) => {
      const s = await scope.json(`${root}/sessions/${e.name}/status`).catch(() => null);
      return s && el("li", null, el("a", { href: hash("agents", agent, "sandboxes", e.name), "aria-current": e.name === number ? "page" : null },
        `${e.name} `, el("span", { class: "state " + s.state }, s.state), el("span", { class: "hint" }, ` ${clock(s.created)} ${s.image ?? ""}`)));
    }));
    list.replaceChildren(...rows.filter(Boolean));
    if (!list.children.length) list.append(el("li", { class: "hint" }, "There are none."));
  });
}

function one(scope, main, agent, number) {
  const root = `/agents/${agent}/containers/sessions/${number}`;
  const facts = el("p", { class: "hint", role: "status" });
  const request = el("pre", { class: "what" });
  const out = new Tail({ "aria-label": "Output" });
  const execs = el("p");
  const verb = (text) => el("button", { class: "quiet", click: () => scope.try(() => scope.tree.post(root + "/ctl", text)) }, text);
  const verbs = el("span", null, verb("stop"), verb("kill"));
  main.append(pane(`Sandbox ${number}`, [verbs, el("a", { href: hash("files", ...root.split("/").filter(Boolean)) }, "files")], facts, request, out.node, execs));
  scope.follow(root + "/output", 0, { text: (text) => out.add(text), failed: (why) => scope.say(why, true) });
  scope.text(root + "/request").then((text) => (request.textContent = text), () => {});
  scope.refresh(agent, async () => {
    const s = await scope.json(root + "/status");
    verbs.hidden = Boolean(s.ended);
    const text = [s.state, s.exit_code != null && `exit ${s.exit_code}`, s.error, s.provider, `begun ${clock(s.created)}`, s.ended && `ended ${clock(s.ended)}`, money(s.cost_microusd)].filter(Boolean).join(" · ");
    if (facts.textContent !== text) facts.textContent = text;
    const all = (await scope.list(root + "/exec").catch(() => [])).filter((e) => e.kind === "directory");
    execs.replaceChildren(...(all.length ? ["commands: ", ...all.flatMap((e) => [el("a", { href: hash("files", ...root.split("/").filter(Boolean), "exec", e.name, "output") }, e.name), " "])] : []));
  });
}
