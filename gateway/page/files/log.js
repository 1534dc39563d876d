// What happens to an agent, as it happens.
import { clock, el, Lines, pane } from "./dom.js";

const begin = 64 << 10; // bytes of the past that are shown
const most = 2000; // lines

export async function log(scope, main, agent) {
  const filter = el("input", { type: "search", "aria-label": "Filter the log", placeholder: "filter", input: () => {
    for (const line of lines.children) line.hidden = !line.textContent.includes(filter.value);
  } });
  const lines = entries();
  main.append(pane("Log", [filter], lines));
  main.firstChild.classList.add("tall");
  await watch(scope, agent, lines, () => filter.value);
}

// entries is the element that watch fills. It is no live region: it would
// never be silent.
export const entries = () => el("ol", { class: "log", tabindex: "0", "aria-label": "Log" });

// watch shows the events of an agent in lines, the newest last.
export async function watch(scope, agent, lines, filter = () => "") {
  const path = `/agents/${agent}/logs/trajectory`;
  const cut = new Lines((line) => {
    if (!line) return;
    const entry = event(line);
    entry.hidden = !entry.textContent.includes(filter());
    fresh.push(entry);
  });
  let fresh = [];
  await scope.tail(path, begin, {
    text: (text) => {
      cut.add(text);
      const end = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 24;
      lines.append(...fresh);
      fresh = [];
      while (lines.children.length > most) lines.firstChild.remove();
      if (end) lines.scrollTop = lines.scrollHeight;
    },
    failed: (why) => scope.say(why, true),
  });
}

function event(line) {
  let e;
  try {
    e = JSON.parse(line);
  } catch {
    return el("li", null, line);
  }
  const { time, event: name, ...rest } = e;
  const bad = /fail|error|refus|denied|invalid/.test(name) || rest.code;
  return el("li", { class: bad ? "bad" : null }, el("time", { datetime: time }, clock(time)), " ", el("b", null, String(name)), " ",
    Object.entries(rest).map(([k, v]) => [el("i", null, k + "="), typeof v === "string" ? v : JSON.stringify(v), " "]).flat());
}
