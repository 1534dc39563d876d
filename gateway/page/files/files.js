// The tree: directories, and what is in them.
import { bytes, clock, el, hash, pane } from "./dom.js";
import { file } from "./file.js";

export async function files(scope, main, names) {
  const path = "/" + names.join("/");
  const answer = await scope.tree.ask("HEAD", path, { signal: scope.signal });
  const kind = answer.headers.get("X-Agent9-Kind") ?? "directory";
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Path" },
    el("a", { href: hash("files") }, "/"),
    names.map((name, i) => [el("a", { href: hash("files", ...names.slice(0, i + 1)), "aria-current": i === names.length - 1 ? "page" : null }, name), i < names.length - 1 || kind === "directory" ? "/" : ""]).flat());
  main.append(crumbs);
  if (kind === "directory") await directory(scope, main, names, path);
  else await file(scope, main, names, path, kind);
}

// writable reports whether files can be made in a directory, as far as its
// permissions tell.
async function writable(scope, names) {
  if (!names.length) return false;
  const above = await scope.list("/" + names.slice(0, -1).join("/"));
  return above.find((e) => e.name === names.at(-1))?.perm.includes("w");
}

async function directory(scope, main, names, path) {
  const rows = el("tbody");
  const name = el("input", { "aria-label": "New name", placeholder: "new name", spellcheck: "false", autocapitalize: "none" });
  const make = (how) => scope.try(async () => {
    const at = `${path}/${name.value.trim()}`;
    if (how === "dir") await scope.tree.ask("MKCOL", at);
    else await scope.tree.ask("PUT", at, { body: "", headers: { "If-None-Match": "*" } });
    location.hash = hash("files", ...names, name.value.trim());
  });
  const may = await writable(scope, names);
  main.append(pane(names.at(-1) ?? "/", null,
    el("div", { class: "scroll" }, el("table", { class: "files" },
      el("thead", null, el("tr", null, ["name", "kind", "size", "changed", ""].map((h) => el("th", { scope: "col" }, h)))), rows)),
    may && el("form", { class: "inline", submit: (event) => { event.preventDefault(); make("file"); } },
      name, el("button", null, "New file"), el("button", { type: "button", click: () => make("dir") }, "New directory"))));
  const read = async () => {
    const all = await scope.list(path);
    rows.replaceChildren(...all.map((e) => el("tr", null,
      el("th", { scope: "row" }, el("a", { href: hash("files", ...names, e.name) }, e.name + (e.kind === "directory" ? "/" : ""))),
      el("td", { class: "hint" }, e.kind),
      el("td", { class: "number" }, e.kind === "directory" || e.kind === "message" ? "" : bytes(e.size)),
      el("td", { class: "time" }, clock(e.mtime)),
      el("td", null, may && remover(scope, names, e, read)))));
    if (!all.length) rows.append(el("tr", null, el("td", { colspan: "5", class: "hint" }, "nothing")));
  };
  await read();
}

// remover asks a second time before something is removed.
function remover(scope, names, e, done) {
  if (/^(new|ctl|next|head)$/.test(e.name)) return false;
  const button = el("button", { class: "quiet", "aria-label": `Remove ${e.name}`, blur: () => (button.textContent = "rm"), click: async () => {
    if (button.textContent === "rm") return void (button.textContent = "sure?");
    await scope.try(async () => {
      await scope.tree.ask("DELETE", [...names, e.name].join("/"));
      await done();
    });
  } }, "rm");
  return button;
}
