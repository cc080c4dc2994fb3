// SPDX-License-Identifier: Apache-2.0
// Elements are built from text nodes only: nothing that comes from a span is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

export const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

export const title = (text) => s("title", {}, text);

export function line(x1, y1, x2, y2, name) {
  return s("line", { x1, y1, x2, y2, class: name });
}

export function text(x, y, content, attributes = {}) {
  return s("text", { x, y, ...attributes }, content);
}

// Enter and space do what a click does.
export function pressable(element, action) {
  element.setAttribute("tabindex", "0");
  element.setAttribute("role", "button");
  element.addEventListener("click", action);
  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      action(event);
    }
  });
  return element;
}

// The page's width, or that of the left one of two columns (style.css).
export function roomFor(aside = false) {
  const all = document.getElementById("main").clientWidth || 1000;
  return aside && !matchMedia("(max-width: 900px)").matches ? all - 320 : all;
}

const NARROWEST = 560; // a drawing in less room scrolls sideways

// A drawing made for the room it has, so that its labels keep their size; drawn again when that changes.
export function drawn(draw, { aside = false } = {}) {
  const box = h("div", {});
  let width = 0;
  const redraw = (room) => {
    if (Math.abs(room - width) < 2) return;
    width = room;
    box.replaceChildren(draw(Math.max(NARROWEST, Math.floor(room))));
  };
  redraw(roomFor(aside));
  new ResizeObserver(([entry]) => entry.contentRect.width && redraw(entry.contentRect.width)).observe(box);
  return box;
}

// What may be wider than the page: it scrolls by itself, and says so when there is more to see.
export function scroller(...children) {
  const hint = h("p", { class: "scroll-hint quiet", hidden: true }, "Wider than the page: scroll sideways →");
  const inner = h("div", { class: "scroll" }, ...children);
  const check = () => {
    const over = inner.scrollWidth > inner.clientWidth + 1;
    hint.hidden = !over;
    if (over) inner.setAttribute("tabindex", "0");
    else inner.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver(check);
  observer.observe(inner);
  if (inner.firstElementChild) observer.observe(inner.firstElementChild);
  return h("div", {}, hint, inner);
}

export function table(columns, rows) {
  const head = columns.map((c) => h("th", { class: c.number ? "number" : null, scope: "col" }, c.name));
  const body = rows.map((row) =>
    h("tr", { class: row.class ?? null, hidden: row.hidden ?? false }, columns.map((c, i) =>
      h("td", { class: c.number ? "number" : c.wrap ? "wrap" : null }, row.cells[i]))));
  return scroller(h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

export function facts(pairs) {
  return h("dl", {}, pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

export function key(mark, label) {
  return h("span", { class: "key" }, s("svg", { viewBox: "0 0 34 14", "aria-hidden": "true" }, mark), label);
}

export const statusBadge = (status) => h("span", { class: `status ${status}` }, status);

export const announce = (element) => (element.setAttribute("aria-live", "polite"), element);
