// SPDX-License-Identifier: Apache-2.0
// One trace on a time line: raw stamps against corrected ones with their error bars.

import { announce, facts, h, key, line, s, statusBadge, table } from "./dom.js";
import { bound, count, duration, short, signed } from "./format.js";
import { Timeline, prepare } from "./timeline.js";

const MODES = [["both", "raw and corrected"], ["corrected", "corrected"], ["raw", "raw"]];

export async function showTrace(target, parts, get) {
  target.append(h("h2", {}, "Traces"));
  if (parts[0]) await showOne(target, parts, get);
  else await showList(target, get);
}

async function showList(target, get) {
  const answer = await get("/v1/traces?limit=200");
  if (answer.traces.length === 0) {
    target.append(h("p", {}, "No spans have arrived yet. Send OTLP over HTTP to /v1/traces."));
    return;
  }
  target.append(
    h("p", {}, `${answer.traces.length} newest traces.`),
    table([{ name: "trace" }, { name: "tenant" }, { name: "root" }, { name: "job" }, { name: "step", number: true },
      { name: "spans", number: true }, { name: "hosts" }],
    answer.traces.map((t) => ({ cells: [
      h("a", { href: `#trace/${t.trace_id}` }, h("code", {}, short(t.trace_id))), t.tenant, t.root_name, t.job, t.step ?? "",
      count(t.span_count), t.hosts.length > 5 ? `${t.hosts.length} hosts` : t.hosts.join(", ")] }))));
}

async function showOne(target, [traceId, spanId], get) {
  const answer = await get(`/v1/traces/${encodeURIComponent(traceId)}`);
  const model = prepare(answer.spans);
  const detail = announce(h("aside", { class: "panel", "aria-label": "Chosen span" }));
  const canvas = h("div", {});
  const view = new Timeline(model, canvas, (node) => detail.replaceChildren(...describe(node, model, view)));
  const modes = h("fieldset", {}, h("legend", {}, "Stamps"),
    MODES.map(([value, label]) => h("label", {}, h("input", {
      type: "radio", name: "mode", value, checked: value === view.mode, onchange: () => view.setMode(value) }), ` ${label}`)));
  view.onlyInView = Boolean(spanId);
  target.append(
    h("p", {}, h("a", { href: "#trace" }, "All traces"), ` / trace `, h("code", {}, traceId), `, ${count(answer.spans.length)} spans`),
    h("div", { class: "controls" }, modes,
      h("label", {}, h("input", { type: "checkbox", checked: view.onlyInView, onchange: (e) => view.setOnlyInView(e.target.checked) }), " only spans in view"),
      h("button", { type: "button", onclick: () => view.zoom(0.5) }, "Zoom in"),
      h("button", { type: "button", onclick: () => view.zoom(2) }, "Zoom out"),
      h("button", { type: "button", onclick: () => view.pan(-0.4) }, "Earlier"),
      h("button", { type: "button", onclick: () => view.pan(0.4) }, "Later"),
      h("button", { type: "button", onclick: () => view.fit() }, "Whole trace")),
    h("p", {},
      key(s("rect", { x: 1, y: 3, width: 32, height: 8, class: "corrected-bar" }), "corrected"),
      key(s("rect", { x: 1, y: 3, width: 32, height: 8, class: "raw-bar" }), "raw, as stamped"),
      key(s("path", { class: "whisker", d: "M5 3v8m0 -4h24m0 -4v8" }), "conditional bound of start and end"),
      key(line(17, 1, 17, 13, "event"), "event")),
    h("div", { class: "columns" }, canvas, detail));
  const start = spanId ? model.byId.get(spanId) : null;
  view.fit();
  if (start) view.focusOn(start);
  else if (model.roots.length) view.choose(model.roots[0]);
}

function describe(node, model, view) {
  const span = node.span;
  const parent = node.parent;
  const rows = [
    ["host", span.host], ["clock", span.clock_domain || "unknown"], ["status", statusBadge(span.start.status)],
    ["duration", span.duration_raw_ns === null ? "end before start" : duration(span.duration_raw_ns)],
    ["correction", node.start.corrected === null ? "unknown" : signed(node.start.corrected - node.start.raw)],
    ["conditional bound", bound(span.start.bound_conditional_ns)], ["hard bound", bound(span.start.bound_hard_ns)],
  ];
  if (parent && parent.span.clock_domain !== span.clock_domain) {
    rows.push(["after parent, raw", signed(node.start.raw - parent.start.raw)]);
    const known = node.start.corrected !== null && parent.start.corrected !== null;
    const both = (span.start.bound_conditional_ns ?? Infinity) + (parent.span.start.bound_conditional_ns ?? Infinity);
    rows.push(["after parent, corrected", known
      ? `${signed(node.start.corrected - parent.start.corrected)} ${Number.isFinite(both) ? bound(both) : "unbounded"}` : "unknown"]);
  }
  const attributes = Object.entries(span.attributes).map(([k, v]) => [k, typeof v === "object" ? JSON.stringify(v) : String(v)]);
  return [
    h("h3", {}, `${span.name} on ${span.host || "unknown host"}`),
    facts(rows),
    span.start.reason ? h("p", { class: "quiet" }, span.start.reason) : null,
    h("p", {}, h("button", { type: "button", onclick: () => view.focusOn(node) }, "Zoom to it"), " ",
      ["rdma.send", "rdma.recv"].includes(span.name)
        ? h("a", { href: `#slow/${span.trace_id}/${span.span_id}` }, "Where its time went") : null),
    attributes.length ? h("h3", {}, "Attributes") : null,
    attributes.length ? facts(attributes) : null,
  ].filter(Boolean);
}

