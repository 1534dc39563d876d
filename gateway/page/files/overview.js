// One agent at a glance.
import { clock, el, hash, pane } from "./dom.js";
import { usage } from "./budget.js";
import { pending } from "./approvals.js";
import { entries, watch } from "./log.js";

export async function overview(scope, main, agent) {
  const facts = el("dl");
  const bars = el("div");
  const due = el("div");
  const lines = entries();
  const verb = (text) => el("button", { class: "quiet", click: () => scope.try(async () => {
    await scope.tree.post(`/agents/${agent}/ctl`, text);
    scope.say(`${agent}: ${text}`);
  }) }, text);
  const stop = verb("stop"), start = verb("start");
  main.classList.add("columns");
  main.append(
    el("div", null,
      pane("Status", [verb("tick"), stop, start], facts),
      pane("Budget", el("a", { href: hash("agents", agent, "budget") }, "history"), bars),
      pane("Approvals", null, due)),
    pane("Log", el("a", { href: hash("agents", agent, "log") }, "all"), lines));
  main.lastChild.classList.add("tall");
  await Promise.all([
    watch(scope, agent, lines),
    scope.refresh(agent, async () => {
      const s = await scope.json(`/agents/${agent}/status`);
      stop.hidden = s.state === "stopped";
      start.hidden = !stop.hidden;
      facts.replaceChildren(...describe(s));
      await usage(scope, bars, agent);
      await pending(scope, due, agent);
    }),
  ]);
}

function describe(s) {
  const queues = Object.entries(s.queues).filter(([, n]) => n).map(([name, n]) => `${name} ${n}`).join(", ");
  const last = s.ticks.last_tick;
  return [
    ["state", el("span", { class: "state " + s.state }, s.state)],
    ["waiting", queues || "nothing"],
    ["ticks", `${s.ticks.count}${s.ticks.failed ? `, ${s.ticks.failed} failed` : ""}` + (last?.outcome ? `, the last ${last.outcome}` : "")],
    ["created", clock(s.created)],
    ["public key", el("code", null, s.pubkey)],
  ].map(([k, v]) => el("div", null, el("dt", null, k), el("dd", null, v)));
}
