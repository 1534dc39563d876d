// What waits for the operator's approval.
import { clock, el, money, pane } from "./dom.js";

export async function approvals(scope, main, agent) {
  const list = el("div");
  main.append(pane("Approvals", null, list));
  await scope.refresh(agent, () => pending(scope, list, agent));
}

// pending shows in node what waits. What stays is left as it is, so that
// nobody's focus or half-written reason is lost.
export async function pending(scope, node, agent) {
  const waiting = await scope.list(`/agents/${agent}/approvals`);
  const ids = new Set(waiting.map((e) => e.name));
  for (const old of [...node.children]) if (!ids.has(old.dataset.id)) old.remove();
  for (const e of waiting) {
    if ([...node.children].some((old) => old.dataset.id === e.name)) continue;
    try {
      node.append(card(scope, agent, await scope.json(`/agents/${agent}/approvals/${e.name}`), e.perm.includes("w")));
    } catch (err) {
      if (err.code !== "not-found") throw err;
    }
  }
  if (!node.children.length) node.append(el("p", { class: "hint" }, "Nothing waits for an approval."));
}

function card(scope, agent, a, may) {
  const reason = el("input", { "aria-label": "Reason for a denial", placeholder: "reason" });
  const decide = (text) => scope.try(async () => {
    await scope.tree.post(`/agents/${agent}/approvals/${a.id}`, text);
    scope.say(text === "approve" ? "Approved." : "Denied.");
  });
  return el("article", { class: "card", "data-id": a.id, "aria-label": `Approval ${a.id}` },
    el("p", null, el("strong", null, `up to ${money(a.max_microusd)}`), ` for ${a.service} ${a.job}`, a.model || a.provider ? ` (${[a.provider, a.model].filter(Boolean).join(", ")})` : ""),
    el("p", { class: "what" }, a.what ?? ""),
    el("p", { class: "hint" }, `asked ${clock(a.asked)}${a.by ? " by " + a.by : ""}, expires ${clock(a.expires)}`),
    may
      ? el("div", { class: "inline" }, el("button", { class: "yes", click: () => decide("approve") }, "Approve"),
        el("button", { class: "no", click: () => decide(("deny " + reason.value.trim()).trim()) }, "Deny"), reason)
      : el("p", { class: "hint" }, "Only the operator can decide."));
}
