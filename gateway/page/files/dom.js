// Elements and the forms of what is shown in them.

// el makes an element. A property that is a function listens to the event of
// that name, one that is true, false or null is there or is not, any other is
// an attribute. Children that are no nodes become text, so nothing that an
// agent or a model wrote can be markup.
export function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// svg makes an element of a picture.
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((c) => c != null && c !== false));
  return node;
}

// A part of the page: a tag with its name and commands, and a body.
export function pane(title, commands, ...body) {
  return el("section", { class: "pane", "aria-label": title },
    el("div", { class: "tag" }, el("h2", null, title), commands),
    el("div", { class: "body" }, body));
}

// hash is the address in this page of the names in a path.
export const hash = (...names) => "#/" + names.map(encodeURIComponent).join("/");

// money shows micro-dollars: two decimals, and more if it has them.
export function money(micros) {
  if (micros == null) return "no limit";
  const text = (Math.abs(micros) / 1e6).toFixed(6).replace(/(\.\d\d\d*?)0+$/, "$1");
  return (micros < 0 ? "−$" : "$") + text;
}

// clock shows a time of RFC 3339: the day too if it is not today.
export function clock(stamp) {
  const t = new Date(stamp);
  if (!stamp || isNaN(t)) return "";
  const time = t.toTimeString().slice(0, 8);
  return t.toDateString() === new Date().toDateString() ? time : `${t.toLocaleDateString("sv")} ${time}`;
}

export function bytes(n) {
  return n < 1024 ? `${n} B` : n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

// records reads lines of JSON; what is not is left out.
export function records(text) {
  return text.split("\n").flatMap((line) => {
    try {
      const v = JSON.parse(line);
      return v && typeof v === "object" ? [v] : [];
    } catch {
      return [];
    }
  });
}

// A Tail shows the end of a growing text, and scrolls with it as long as the
// reader is at the end.
export class Tail {
  constructor(properties, most = 256 << 10) {
    this.node = el("pre", { class: "tail", tabindex: "0", ...properties });
    this.most = most;
    this.length = 0;
  }

  add(text) {
    const n = this.node;
    const end = n.scrollHeight - n.scrollTop - n.clientHeight < 24;
    n.append(text);
    this.length += text.length;
    while (this.length > this.most && n.childNodes.length > 1) {
      this.length -= n.firstChild.textContent.length;
      n.firstChild.remove();
    }
    if (end) n.scrollTop = n.scrollHeight;
  }
}

// Lines cuts a text that comes in pieces into lines.
export class Lines {
  constructor(each) {
    this.each = each;
    this.rest = "";
  }

  add(text) {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop();
    lines.forEach((line) => this.each(line));
  }
}
