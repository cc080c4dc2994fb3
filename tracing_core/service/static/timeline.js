// SPDX-License-Identifier: Apache-2.0
// The time line itself: a tree of spans, one row each, drawn for the visible window only.

import { line, roomFor, s, text, title } from "./dom.js";
import { duration, since, ticks } from "./format.js";

const NARROWEST = 560;
const LEFT = 230;
const ROW = 26;
const ROWS_MAX = 400;
const OPEN_DEPTH = 1; // deeper spans are folded until asked for

// Spans to a tree with times as Numbers relative to the earliest stamp.
export function prepare(spans) {
  const origin = spans.map((span) => BigInt(span.start.corrected_reference_ns ?? span.start.raw_local_ns))
    .reduce((a, b) => (a < b ? a : b));
  const instant = (value) => ({
    raw: since(value.raw_local_ns, origin),
    corrected: value.corrected_reference_ns === null ? null : since(value.corrected_reference_ns, origin),
    bound: value.bound_conditional_ns,
  });
  const nodes = spans.map((span) => ({ span, start: instant(span.start), end: instant(span.end),
    events: span.events.map((event) => ({ name: event.name, ...instant(event.time) })), children: [], parent: null, open: false }));
  const byId = new Map();
  for (const node of nodes) if (!byId.has(node.span.span_id)) byId.set(node.span.span_id, node);
  const roots = [];
  for (const node of nodes) {
    const parent = byId.get(node.span.parent_span_id);
    if (parent && parent !== node && !isBelow(parent, node)) {
      node.parent = parent;
      parent.children.push(node);
    } else roots.push(node);
  }
  const open = (node, depth) => {
    node.depth = depth;
    node.open = depth < OPEN_DEPTH;
    for (const child of node.children) open(child, depth + 1);
  };
  for (const root of roots) open(root, 0);
  return { roots, byId, nodes };
}

// Guards against parents that form a circle.
function isBelow(node, ancestor) {
  for (let at = node; at; at = at.parent) if (at === ancestor) return true;
  return false;
}

export function flatten(roots) {
  const rows = [];
  const visit = (node) => {
    rows.push(node);
    if (node.open) node.children.forEach(visit);
  };
  roots.forEach(visit);
  return rows;
}

export class Timeline {
  constructor(model, target, onChoose) {
    this.model = model;
    this.target = target;
    this.onChoose = onChoose;
    this.mode = "both";
    this.onlyInView = false;
    this.chosen = null;
    this.onDraw = () => {};
    this.width = Math.max(NARROWEST, roomFor(true));
    this.fit();
    new ResizeObserver(([entry]) => {
      const width = Math.max(NARROWEST, Math.floor(entry.contentRect.width));
      if (entry.contentRect.width && Math.abs(width - this.width) > 1) {
        this.width = width;
        this.draw();
      }
    }).observe(target);
  }

  setMode(mode) { this.mode = mode; this.draw(); }

  setOnlyInView(only) { this.onlyInView = only; this.draw(); }

  inView(node) {
    const edges = [node.start.raw, node.end.raw, node.start.corrected ?? node.start.raw, node.end.corrected ?? node.end.raw];
    return node === this.chosen || (Math.max(...edges) >= this.low && Math.min(...edges) <= this.high);
  }

  rows() {
    const rows = flatten(this.model.roots);
    return this.onlyInView ? rows.filter((node) => this.inView(node)) : rows;
  }

  fit() {
    const ends = this.model.nodes.flatMap((n) => [n.start.raw, n.end.raw, n.start.corrected ?? n.start.raw, n.end.corrected ?? n.end.raw]);
    this.window(Math.min(...ends), Math.max(...ends), 0.02);
  }

  window(low, high, margin) {
    const pad = Math.max(1, (high - low) * margin);
    this.low = low - pad;
    this.high = high + pad;
    this.draw();
  }

  zoom(factor) {
    const middle = (this.low + this.high) / 2;
    const half = Math.max(5, ((this.high - this.low) * factor) / 2);
    this.window(middle - half, middle + half, 0);
  }

  pan(share) {
    const shift = (this.high - this.low) * share;
    this.window(this.low + shift, this.high + shift, 0);
  }

  choose(node) {
    this.chosen = node;
    this.onChoose(node);
    this.draw();
  }

  // Shows a span with its children and, for a receive, the send it belongs to.
  focusOn(node, alone = this.onlyInView) {
    this.onlyInView = alone;
    for (let at = node; at; at = at.parent) at.open = true;
    const family = [node, ...node.children];
    if (["server", "consumer"].includes(node.span.kind) && node.parent) family.push(node.parent);
    const edges = family.flatMap((n) => [n.start.raw, n.end.raw, n.start.corrected ?? n.start.raw, n.end.corrected ?? n.end.raw]);
    this.low = Math.min(...edges);
    this.high = Math.max(...edges);
    this.choose(node);
    this.window(this.low, this.high, 0.15);
    this.target.querySelector(".chosen")?.scrollIntoView?.({ block: "nearest" });
  }

  x(ns) { return LEFT + ((ns - this.low) / (this.high - this.low)) * (this.width - LEFT - 8); }

  // Whether most spans without children are too short to be seen at this scale.
  tooCoarse() {
    const lengths = this.model.nodes.filter((node) => !node.children.length)
      .map((node) => Math.abs(node.end.raw - node.start.raw)).sort((a, b) => a - b);
    const pixels = lengths.length ? this.x(this.low + lengths[lengths.length >> 1]) - LEFT : LEFT;
    return pixels < 3;
  }

  draw() {
    const rows = this.rows();
    const shown = rows.slice(0, ROWS_MAX);
    const height = shown.length * ROW + 30;
    const svg = s("svg", { viewBox: `0 0 ${this.width} ${height}`, class: "drawing", role: "tree", "aria-label": "Spans of the trace" });
    svg.append(s("defs", {}, s("clipPath", { id: "plot" }, s("rect", { x: LEFT, y: 0, width: this.width - LEFT, height }))));
    const marks = ticks(this.low, this.high, 6);
    const near = Math.max(...marks.map(Math.abs)) > 200 * (marks[1] - marks[0]); // labels would all look the same
    marks.forEach((value, i) => svg.append(
      line(this.x(value), 20, this.x(value), height, "axis"),
      text(this.x(value), 13, near && i ? `+${duration(value - marks[0])}` : duration(value, near ? 6 : 3),
        { "text-anchor": this.x(value) > this.width - 30 ? "end" : "middle", class: "quiet" })));
    shown.forEach((node, i) => svg.append(this.row(node, 24 + i * ROW)));
    if (rows.length > shown.length) {
      svg.append(text(LEFT, height - 2, `${rows.length - shown.length} more rows: fold some spans`, { class: "quiet" }));
    }
    const focused = this.target.contains(document.activeElement) && document.activeElement.dataset?.span;
    this.target.replaceChildren(svg);
    this.onDraw();
    if (focused) svg.querySelector(`[data-span="${focused}"]`)?.focus();
  }

  row(node, y) {
    const indent = 12 * Math.min(node.depth, 6);
    const sign = node.children.length ? (node.open ? "▾ " : "▸ ") : "   ";
    const name = `${sign}${node.span.name} · ${node.span.host}`;
    const group = s("g", { class: node === this.chosen ? "row chosen" : "row", role: "treeitem", tabindex: 0,
      "aria-level": node.depth + 1, "aria-expanded": node.children.length ? String(node.open) : null,
      "aria-selected": String(node === this.chosen), "data-span": node.span.span_id,
      "aria-label": `${node.span.name} on ${node.span.host}` },
      title(`${node.span.name} on ${node.span.host}`),
      s("rect", { class: "band", x: 0, y, width: this.width, height: ROW }),
      text(indent, y + 17, name.length > 30 ? `${name.slice(0, 29)}…` : name));
    const marks = s("g", { "clip-path": "url(#plot)" });
    const both = this.mode === "both";
    const corrected = node.start.corrected !== null && node.end.corrected !== null;
    if (this.mode !== "corrected" || !corrected) this.bar(marks, node, "raw", y + (both ? 3 : 6), both ? 8 : 13);
    if (this.mode !== "raw" && corrected) this.bar(marks, node, "corrected", y + (both ? 13 : 6), both ? 9 : 13);
    group.append(marks);
    group.addEventListener("click", () => this.press(node));
    group.addEventListener("keydown", (event) => this.key(event, node));
    return group;
  }

  bar(marks, node, which, y, height) {
    const [from, to] = [this.x(node.start[which]), this.x(node.end[which])];
    marks.append(s("rect", { x: Math.min(from, to), y, width: Math.max(1.5, Math.abs(to - from)), height, class: `${which}-bar` }));
    for (const event of node.events) {
      if (event[which] !== null) {
        marks.append(s("g", {}, title(event.name), line(this.x(event[which]), y - 1, this.x(event[which]), y + height + 1, "event")));
      }
    }
    if (which === "raw") return;
    for (const edge of [node.start, node.end]) {
      if (edge.bound === null) continue;
      const half = (edge.bound / (this.high - this.low)) * (this.width - LEFT - 8);
      if (half < 1) continue;
      const middle = y + height / 2;
      marks.append(s("path", { class: "whisker", d: `M${this.x(edge.corrected) - half} ${middle - 4}v8m0 -4h${2 * half}m0 -4v8` }));
    }
  }

  // The second of two quick presses zooms; rows are drawn anew in between, so dblclick would not come.
  press(node) {
    const now = performance.now();
    const twice = this.pressed?.node === node && now - this.pressed.at < 400;
    this.pressed = { node, at: now };
    if (twice) this.focusOn(node);
    else if (node.children.length && node === this.chosen) node.open = !node.open;
    else if (node.children.length && !node.open) node.open = true;
    this.choose(node);
  }

  key(event, node) {
    const rows = this.rows();
    const at = rows.indexOf(node);
    const moves = { ArrowDown: rows[at + 1], ArrowUp: rows[at - 1] };
    if (event.key === "Enter" || event.key === " ") this.press(node);
    else if (event.key === "ArrowRight") { node.open = true; this.choose(node); }
    else if (event.key === "ArrowLeft") { node.open = false; this.choose(node); }
    else if (event.key === "+") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key in moves) {
      if (moves[event.key]) this.target.querySelector(`[data-span="${moves[event.key].span.span_id}"]`)?.focus();
    } else return;
    event.preventDefault();
  }
}
