// What was spent and what is left.
import { clock, el, money, pane, records, svg } from "./dom.js";

const history = 512 << 10; // bytes of the ledger that are looked at
const hour = 3600e3;

export async function budget(scope, main, agent) {
  const bars = el("div");
  const chart = el("div");
  const rows = el("tbody");
  main.append(
    pane("Budget", null, bars),
    pane("The last 24 hours", null, chart),
    pane("Ledger", null, el("div", { class: "scroll" }, el("table", null,
      el("thead", null, el("tr", null, ["time", "entry", "cost", "of", "what"].map((h) => el("th", { scope: "col" }, h)))), rows))));
  const ledger = `/agents/${agent}/budget/ledger`;
  await scope.refresh(agent, async () => {
    await usage(scope, bars, agent);
    const from = Math.max(0, (await scope.size(ledger)) - history);
    const entries = records(await scope.text(ledger, from));
    chart.replaceChildren(hours(entries));
    rows.replaceChildren(...entries.slice(-100).reverse().map((e) => el("tr", null,
      el("td", { class: "time" }, clock(e.time)), el("td", null, e.kind),
      el("td", { class: "number" }, e.cost_microusd == null ? "" : money(e.cost_microusd)),
      el("td", { class: "number" }, e.max_microusd == null ? "" : money(e.max_microusd)),
      el("td", null, [e.what, e.reason].filter(Boolean).join(": ")))));
  });
}

// usage shows the windows of the budget as bars.
export async function usage(scope, node, agent) {
  const u = await scope.json(`/agents/${agent}/budget/usage`);
  node.replaceChildren(...[["Today", u.day], ["Total", u.total], ["Tick", u.tick]]
    .filter(([name, w]) => name !== "Tick" || w.limit_microusd != null)
    .map(([name, w]) => bar(name, w, u.held_microusd)),
  el("p", { class: u.overdrawn ? "left wrong" : "left" }, el("strong", null, "Left"), " ", money(u.left_microusd),
    u.overdrawn ? ": overdrawn, so nothing that costs begins" : u.parent ? `, the least here and in ${u.parent} and above` : ""));
}

function bar(name, w, held) {
  const text = `${money(w.spent_microusd)} spent` + (held ? `, ${money(held)} held` : "") +
    (w.limit_microusd == null ? ", no limit" : ` of ${money(w.limit_microusd)}`);
  const part = (n) => (w.limit_microusd ? Math.max(0, Math.min(100, (100 * n) / w.limit_microusd)) : 100);
  const spent = part(w.spent_microusd);
  const picture = svg("svg", { class: "bar", viewBox: "0 0 100 1", preserveAspectRatio: "none", role: "img", "aria-label": `${name}: ${text}` },
    svg("rect", { class: "spent" + (spent > 90 ? " much" : ""), width: spent, height: 1 }),
    svg("rect", { class: "held", x: spent, width: Math.min(100 - spent, part(held)), height: 1 }));
  if (w.limit_microusd == null) return el("p", { class: "window" }, el("strong", null, name), " ", text);
  return el("div", { class: "window" }, el("p", null, el("strong", null, name), " ", text,
    w.resets ? el("span", { class: "hint" }, ` until ${clock(w.resets)}`) : ""), picture);
}

// hours is what was spent in each of the last 24 hours.
function hours(entries) {
  const now = Math.floor(Date.now() / hour);
  const spent = new Array(24).fill(0);
  for (const e of entries) {
    const back = now - Math.floor(Date.parse(e.time) / hour);
    if (e.cost_microusd > 0 && back >= 0 && back < 24) spent[23 - back] += e.cost_microusd;
  }
  const most = Math.max(...spent);
  const all = spent.reduce((a, b) => a + b);
  if (!all) return el("p", { class: "hint" }, "Nothing was spent.");
  const label = `${money(all)} in 24 hours, at most ${money(most)} in one`;
  return el("figure", null,
    svg("svg", { class: "hours", viewBox: "0 0 24 10", preserveAspectRatio: "none", role: "img", "aria-label": label },
      spent.map((n, i) => svg("rect", { x: i + 0.1, width: 0.8, y: n ? 9.7 - (9.7 * n) / most : 9.9, height: 10 },
        svg("title", null, `${new Date((now - 23 + i) * hour).toTimeString().slice(0, 5)}: ${money(n)}`)))),
    el("figcaption", null, label));
}
