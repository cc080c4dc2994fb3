// SPDX-License-Identifier: Apache-2.0
// One trace on a time line: raw stamps against corrected ones with their error bars.

import { announce, facts, h, key, line, s, scroller, statusBadge, table } from "./dom.js";
import { bound, count, duration, instant, signed, since } from "./format.js";
import { Timeline, prepare } from "./timeline.js";

const LIST_MAX = 1000;
const MODES = [["both", "raw and corrected"], ["corrected", "corrected"], ["raw", "raw"]];

export async function showTrace(target, parts, get) {
  target.append(h("h2", {}, "Traces"));
  if (parts[0]) await showOne(target, parts, get);
  else await showList(target, get);
}

async function showList(target, get) {
  const answer = await get(`/v1/traces?limit=${LIST_MAX}`);
  if (answer.traces.length === 0) {
    target.append(h("p", {}, "No spans have arrived yet. Send OTLP over HTTP to /v1/traces."));
    return;
  }
  const rows = answer.traces.map((t) => ({ cells: [
    h("a", { href: `#trace/${t.trace_id}` }, h("code", {}, t.trace_id)),
    h("span", { title: `${t.start_local_ns} ns` }, instant(t.start_local_ns)),
    t.hosts.length > 1 ? h("span", { class: "quiet", title: "Stamps of several hosts do not subtract: open the trace for corrected time." }, "—")
      : duration(since(t.end_local_ns, t.start_local_ns)), t.job, t.step ?? "", t.tenant, t.root_name, count(t.span_count),
    h("span", { title: t.hosts.join(", ") }, t.hosts.length > 4 ? `${t.hosts.length} hosts` : t.hosts.join(", "))] }));
  const texts = answer.traces.map((t) =>
    ` ${[t.trace_id, t.tenant, t.root_name, t.job, `step=${t.step ?? ""}`, instant(t.start_local_ns), ...t.hosts].join(" ")} `.toLowerCase());
  const shown = h("output", { class: "quiet", for: "filter" });
  const list = table([{ name: "trace" }, { name: "start, as stamped" }, { name: "duration, as stamped", number: true },
    { name: "job" }, { name: "step", number: true }, { name: "tenant" }, { name: "root" }, { name: "spans", number: true },
    { name: "hosts" }], rows);
  const lines = [...list.querySelectorAll("tbody tr")];
  const filter = () => {
    const words = input.value.toLowerCase().split(" ").filter(Boolean);
    const has = (text, word) => text.includes(word.startsWith("step=") ? ` ${word} ` : word); // step=1 is not step=10
    lines.forEach((row, i) => { row.hidden = !words.every((word) => has(texts[i], word)); });
    const left = lines.filter((row) => !row.hidden).length;
    shown.textContent = left === lines.length ? `${count(left)} traces, newest first` : `${count(left)} of ${count(lines.length)} traces`;
  };
  const input = h("input", { type: "search", id: "filter", placeholder: "id, tenant, job, step=4, host", size: 30, oninput: filter });
  filter();
  target.append(h("div", { class: "controls" }, h("label", { for: "filter" }, "Filter"), input, shown), list);
  if (lines.length === LIST_MAX) target.append(h("p", {}, `Only the ${count(LIST_MAX)} newest are listed; /v1/traces finds older ones.`));
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
  const hint = h("p", { class: "note", hidden: true }, "At this scale most spans are hairlines. Zoom to one transfer with the list above, " +
    "or choose a span and press “Zoom to the span”; a double click on a row does the same.");
  const only = h("input", { type: "checkbox", checked: view.onlyInView, onchange: () => view.setOnlyInView(only.checked) });
  view.onDraw = () => {
    hint.hidden = !view.tooCoarse();
    only.checked = view.onlyInView;
  };
  const pick = h("select", { id: "transfer", disabled: true }, h("option", { value: "" }, "…"));
  pick.addEventListener("change", () => {
    const node = model.byId.get(pick.value);
    if (node) view.focusOn(node, true);
  });
  target.append(
    h("p", {}, h("a", { href: "#trace" }, "All traces"), ` / trace `, h("code", {}, traceId), `, ${count(answer.spans.length)} spans`),
    h("div", { class: "controls" }, modes,
      h("label", {}, only, " only spans in view"),
      h("span", { class: "together" }, h("label", { for: "transfer" }, "Zoom to transfer"), pick),
      h("button", { type: "button", onclick: () => view.chosen && view.focusOn(view.chosen) }, "Zoom to the span"),
      h("button", { type: "button", onclick: () => view.zoom(0.5) }, "Zoom in"),
      h("button", { type: "button", onclick: () => view.zoom(2) }, "Zoom out"),
      h("button", { type: "button", onclick: () => view.pan(-0.4) }, "Earlier"),
      h("button", { type: "button", onclick: () => view.pan(0.4) }, "Later"),
      h("button", { type: "button", onclick: () => view.fit() }, "Whole trace")),
    hint,
    h("p", {},
      key(s("rect", { x: 1, y: 3, width: 32, height: 8, class: "corrected-bar" }), "corrected"),
      key(s("rect", { x: 1, y: 3, width: 32, height: 8, class: "raw-bar" }), "raw, as stamped"),
      key(s("path", { class: "whisker", d: "M5 3v8m0 -4h24m0 -4v8" }), "conditional bound of start and end"),
      key(line(17, 1, 17, 13, "event"), "event")),
    h("div", { class: "columns" }, scroller(canvas), detail));
  const start = spanId ? model.byId.get(spanId) : null;
  view.fit();
  if (start) view.focusOn(start);
  else if (model.roots.length) view.choose(model.roots[0]);
  get(`/v1/traces/${encodeURIComponent(traceId)}/transfers`)
    .then(({ transfers }) => offerTransfers(pick, transfers, spanId))
    .catch(() => pick.replaceChildren(h("option", { value: "" }, "not known")));
}

// Slow transfers first, then the others, the longest first.
function offerTransfers(pick, transfers, chosen) {
  const longest = transfers.toSorted((a, b) => (b.latency_corrected_ns ?? 0) - (a.latency_corrected_ns ?? 0));
  const option = (t) => h("option", { value: t.send_span_id, selected: t.send_span_id === chosen },
    `${t.sender} → ${t.receiver}, ${duration(t.latency_corrected_ns)}`);
  const group = (label, items) => (items.length ? [h("optgroup", { label }, items.map(option))] : []);
  pick.replaceChildren(
    h("option", { value: "" }, transfers.length ? `choose one of ${count(transfers.length)}` : "none in this trace"),
    ...group("slow", longest.filter((t) => t.slow)), ...group("others, longest first", longest.filter((t) => !t.slow)));
  pick.disabled = transfers.length === 0;
}

function describe(node, model, view) {
  const span = node.span;
  const parent = node.parent;
  const rows = [
    ["span id", h("code", {}, span.span_id)], ["host", span.host], ["clock", span.clock_domain || "unknown"], ["status", statusBadge(span.start.status)],
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

