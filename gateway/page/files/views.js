// The views of an agent, and which function shows each.
import { agents } from "./agents.js";
import { overview } from "./overview.js";
import { talk } from "./talk.js";
import { files } from "./files.js";
import { log } from "./log.js";
import { budget } from "./budget.js";
import { approvals } from "./approvals.js";
import { sandboxes } from "./sandboxes.js";
import { hash } from "./dom.js";

export const tabs = [
  { name: "overview", title: "Overview", show: overview },
  { name: "talk", title: "Talk", show: talk },
  { name: "files", title: "Files" },
  { name: "log", title: "Log", show: log },
  { name: "budget", title: "Budget", show: budget },
  { name: "approvals", title: "Approvals", show: approvals },
  { name: "sandboxes", title: "Sandboxes", show: sandboxes },
];

// The addresses: #/agents, #/agents/NAME/TAB/… and #/files/PATH of the tree.
export function tabAddress(agent, tab) {
  return tab === "files" ? hash("files", "agents", agent) : hash("agents", agent, tab);
}

// find says what the names of an address mean: whose it is, the tab that is
// shown, and how.
export function find(names) {
  if (names[0] === "files") {
    const path = names.slice(1);
    return { agent: path[0] === "agents" ? path[1] : undefined, tab: "files", title: path.at(-1) ?? "Files", show: (scope, main) => files(scope, main, path) };
  }
  const [, agent, name = "overview", ...rest] = names;
  if (!agent || names[0] !== "agents") return { title: "Agents", show: agents };
  const tab = tabs.find((t) => t.name === name && t.show) ?? tabs[0];
  return { agent, tab: tab.name, title: `${tab.title} · ${agent}`, show: (scope, main) => tab.show(scope, main, agent, rest) };
}
