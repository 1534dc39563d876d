// Logging in, and which view is shown.
import { el, hash } from "./dom.js";
import { Tree } from "./tree.js";
import { Line } from "./line.js";
import { Scope } from "./scope.js";
import { find, tabs, tabAddress } from "./views.js";

const head = document.getElementById("head");
const main = document.getElementById("main");
const said = document.getElementById("said");
const key = "agent9.token";

let tree, line, scope, hushing;

// say tells of something that happened; urgent things stay longer.
function say(text, wrong = false) {
  clearTimeout(hushing);
  said.textContent = text;
  said.className = wrong ? "wrong" : "";
  hushing = setTimeout(() => (said.textContent = ""), wrong ? 12000 : 4000);
}

// leave forgets the token.
function leave(why) {
  sessionStorage.removeItem(key);
  scope?.end();
  line?.close();
  tree = line = scope = null;
  login(why);
}

function login(why) {
  document.title = "agent9";
  head.replaceChildren(el("div", { class: "tag" }, el("h1", null, "agent9")));
  const token = el("input", { id: "token", type: "password", autocomplete: "current-password", spellcheck: "false", "aria-describedby": "hint" });
  const button = el("button", null, "Log in");
  const wrong = el("p", { class: "wrong", role: "alert" }, why ?? "");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    wrong.textContent = "";
    const trying = new Tree(token.value.trim());
    try {
      await trying.ask("HEAD", "/agents");
      sessionStorage.setItem(key, trying.token);
      enter();
    } catch (err) {
      wrong.textContent = err.status === 401 ? "This token is not valid." : err.message;
      button.disabled = false;
      token.select();
    }
  };
  main.replaceChildren(el("form", { class: "login pane", submit },
    el("div", { class: "tag" }, el("h2", null, "Log in")),
    el("div", { class: "body" },
      el("label", { for: "token" }, "Token"), token, button, wrong,
      el("p", { class: "hint", id: "hint" }, "It begins with a9_. Make one with ", el("code", null, "agentctl token NAME"),
        ", or ", el("code", null, "agentctl token '*'"), " for all agents. This tab keeps it until it is closed."))));
  token.focus();
  performance.mark("ready");
}

function enter() {
  tree = new Tree(sessionStorage.getItem(key) ?? "", () => leave("The token was revoked or has expired."));
  line = new Line(tree, (state) => {
    document.body.dataset.line = state;
    const sign = document.getElementById("sign");
    if (sign) sign.textContent = state === "off" ? "reconnecting…" : "";
  });
  show();
}

// show shows what the address says.
async function show(event) {
  if (!tree) return;
  scope?.end();
  const mine = (scope = new Scope(tree, line, say));
  let names;
  try {
    names = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    names = [];
  }
  if (!names.length) {
    const all = await tree.list("/agents", mine.signal).catch(() => []);
    if (mine.signal.aborted) return;
    names = all.length === 1 ? ["agents", all[0].name] : ["agents"];
  }
  const found = find(names);
  document.title = found.title + " · agent9";
  say("");
  heading(found);
  const body = el("div", { class: "view" });
  main.replaceChildren(body);
  if (event) main.focus({ preventScroll: true });
  scrollTo(0, 0);
  try {
    await found.show(mine, body);
  } catch (err) {
    if (mine.signal.aborted) return;
    const text = (err.status === 404 && (await unknown(found.agent, mine.signal))) || err.message;
    if (mine.signal.aborted) return;
    if (text !== err.message) body.replaceChildren();
    body.append(el("p", { class: "wrong", role: "alert" }, text));
  }
}

// unknown says so if there is no such agent.
async function unknown(agent, signal) {
  if (!agent) return "";
  try {
    await tree.ask("HEAD", `/agents/${agent}`, { signal });
  } catch (err) {
    if (err.status === 404) return `There is no agent called ${agent}, or this token does not show it.`;
  }
  return "";
}

function heading({ agent, tab }) {
  const here = (yes) => (yes ? "page" : null);
  head.replaceChildren(
    el("div", { class: "tag" },
      el("h1", null, el("a", { href: hash("agents") }, "agent9"), agent ? [" / ", el("a", { href: hash("agents", agent) }, agent)] : null),
      el("span", { id: "sign", role: "status" }),
      el("a", { href: hash("files"), "aria-current": here(!agent && tab) }, "Tree"),
      el("button", { class: "quiet", click: () => leave("You are logged out.") }, "Log out")),
    agent ? el("nav", { class: "tabs", "aria-label": agent },
      tabs.map((t) => el("a", { href: tabAddress(agent, t.name), "aria-current": here(t.name === tab) }, t.title))) : "");
  head.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", show);
if (sessionStorage.getItem(key) === null) login();
else enter();
