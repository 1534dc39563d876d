// The agents and their state.
import { el, hash, money, pane } from "./dom.js";

const shown = 200; // at once; the filter finds the others

export async function agents(scope, main) {
  const filter = el("input", { type: "search", "aria-label": "Filter by name", placeholder: "filter", input: () => draw() });
  const count = el("p", { class: "hint", role: "status" });
  const rows = el("tbody");
  const name = el("input", { "aria-label": "Name of a new agent", placeholder: "new agent", spellcheck: "false", autocapitalize: "none" });
  const maker = el("form", { class: "inline", submit: (event) => { event.preventDefault(); make(); } }, name, el("button", null, "Create"));
  main.append(pane("Agents", [filter],
    el("div", { class: "scroll" }, el("table", null,
      el("thead", null, el("tr", null, ["name", "state", "waiting", "approvals", "spent today", "left"].map((h) => el("th", { scope: "col" }, h)))), rows)),
    count, maker));
  let all = [];
  const known = new Map(); // what the rows show

  async function make() {
    await scope.try(async () => {
      const wish = name.value.trim();
      // A slash would lead elsewhere, and no agent's name has what needs another form here.
      if (!/^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(wish)) throw new Error(`${JSON.stringify(wish)} is no name of an agent: it has letters, digits, ".", "_" and "-", and does not begin with "." or "-"`);
      await scope.tree.ask("MKCOL", "/agents/" + wish);
      location.hash = hash("agents", name.value.trim());
    });
  }

  function draw() {
    const found = all.filter((n) => n.includes(filter.value.trim()));
    const some = found.slice(0, shown);
    rows.replaceChildren(...some.map((n) => known.get(n)?.row ?? entry(n)));
    count.textContent = all.length === 0 ? "There are no agents yet." : some.length < found.length ? `${some.length} of ${found.length}; filter to see the others` : "";
    return some;
  }

  function entry(agent) {
    const cells = Array.from({ length: 5 }, () => el("td"));
    const row = el("tr", null, el("th", { scope: "row" }, el("a", { href: hash("agents", agent) }, agent)), cells);
    known.set(agent, { row, cells });
    return row;
  }

  async function update(agent) {
    const { cells } = known.get(agent);
    const s = await scope.json(`/agents/${agent}/status`);
    const texts = [s.state, s.queues.inbox + s.queues.jobs, "", money(s.budget.spent_day_microusd), money(s.budget.left_microusd)];
    texts.forEach((t, i) => { if (cells[i].textContent !== String(t)) cells[i].textContent = t; });
    cells[0].className = "state " + s.state;
    cells[4].className = s.budget.left_microusd < 0 ? "wrong" : "";
    cells[2].replaceChildren(s.queues.approvals ? el("a", { class: "due", href: hash("agents", agent, "approvals") }, String(s.queues.approvals)) : "");
  }

  const read = async () => {
    all = (await scope.list("/agents")).map((e) => e.name).sort();
    const some = draw();
    for (let i = 0; i < some.length; i += 4) await Promise.allSettled(some.slice(i, i + 4).map(update));
  };
  const root = await scope.list("/");
  maker.hidden = !root.some((e) => e.name === "create" || e.name === "ctl");
  if (root.some((e) => e.name === "events")) return scope.refresh("", read);
  await read();
  if (all.length === 1) await scope.refresh(all[0], read);
}
