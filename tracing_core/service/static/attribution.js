// SPDX-License-Identifier: Apache-2.0
// Slow transfers, and where the time of one of them went.

import { drawn, facts, h, key, line, s, scroller, statusBadge, table, text, title } from "./dom.js";
import { bound, count, duration, signed, ticks } from "./format.js";

const LEFT = 210;
const STEP = 28;

export async function showAttribution(target, parts, get) {
  const list = await get("/v1/slow-transfers?limit=200");
  const [trace, span] = parts.length === 2 ? parts
    : list.transfers.length ? [list.transfers[0].trace_id, list.transfers[0].send_span_id] : [null, null];
  target.append(h("h2", {}, "Slow transfers"),
    h("p", {}, `${count(list.total)} of ${count(list.compared)} transfers are slow: their excess over the usual latency is ` +
      "beyond six usual scatters and beyond 20 % of it. The cause does not matter: a transfer that was held up by " +
      "another one's burst is slow as well."));
  if (trace) target.append(await explain(trace, span, get));
  if (list.transfers.length) target.append(h("h3", {}, "All slow transfers"), slowTable(list.transfers, span));
}

async function explain(trace, span, get) {
  const answer = await get(`/v1/attribution/${encodeURIComponent(trace)}/${encodeURIComponent(span)}`);
  const t = answer.transfer;
  const verdict = answer.kind === "none"
    ? h("p", { class: "verdict" }, "Not decided: ", answer.reason)
    : h("p", { class: "verdict" }, `The ${answer.kind} `, h("b", {}, answer.entity), " made it slow.");
  return h("section", { "aria-label": "Attribution" },
    h("h3", {}, `${t.sender} → ${t.receiver}, ${t.job} step ${t.step ?? "?"}, ${count(t.bytes)} bytes`),
    verdict,
    answer.kind === "none" ? null : h("p", {}, answer.reason + "."),
    h("div", { class: "columns" },
      h("div", {}, scroller(drawn((width) => draw(answer, width), { aside: true })),
        h("p", {},
          key(s("rect", { x: 1, y: 3, width: 32, height: 8, class: "usual-bar" }), "usual"),
          key(s("rect", { x: 1, y: 3, width: 32, height: 8, class: "excess-bar" }), "excess"),
          key(s("rect", { x: 1, y: 3, width: 32, height: 8, class: "excess-bar leader" }), "named cause"),
          key(whisker(17, 7, 12), "conditional bound"))),
      h("aside", { class: "panel" }, h("h3", {}, "Latency"),
        facts([
          ["corrected", signed(t.latency_corrected_ns)],
          ["bound", bound(t.latency_bound_conditional_ns)],
          ["as stamped", signed(Number(t.latency_raw_ns))],
          ["usual", duration(t.usual_ns)],
          ["excess", signed(t.excess_ns)],
          ["usual scatter", duration(t.spread_ns)],
          ["explained", answer.share === null ? "–" : `${Math.round(100 * answer.share)} %`],
        ]),
        h("h3", {}, "Evidence"), h("ul", {}, answer.evidence.map((item) => h("li", {}, item))),
        h("h3", {}, "Clocks"),
        h("p", {}, Object.entries(answer.clock_status).flatMap(([clock, status]) => [`${clock} `, statusBadge(status), " "])),
        h("p", {}, h("a", { href: `#trace/${t.trace_id}/${t.send_span_id}` }, "Show it in its trace")))),
    componentTable(answer));
}

function draw(answer, width) {
  const parts = answer.components;
  const most = Math.max(...parts.map((p) => Math.max(p.value_ns ?? 0, p.usual_ns ?? 0) + (p.bound_conditional_ns ?? 0)), 1);
  const least = Math.min(0, ...parts.map((p) => (p.value_ns ?? 0) - (p.bound_conditional_ns ?? 0)));
  const x = (ns) => LEFT + ((ns - least) / (most - least)) * (width - LEFT - 90);
  const height = parts.length * STEP + 30;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "drawing", role: "img", "aria-label": "Time per component; the table below has the numbers" });
  for (const value of ticks(least, most, 6)) {
    svg.append(line(x(value), 0, x(value), height - 22, value === 0 ? "zero" : "axis"),
      text(x(value), height - 6, duration(value), { "text-anchor": "middle", class: "quiet" }));
  }
  parts.forEach((part, i) => {
    const y = 4 + i * STEP;
    const leader = isLeader(answer, part);
    const group = s("g", {}, title(`${part.entity}: ${duration(part.value_ns)}, usually ${duration(part.usual_ns)}`),
      text(0, y + 14, part.entity, { "font-weight": leader ? 600 : 400 }));
    if (part.value_ns === null || part.usual_ns === null) {
      group.append(text(x(0) + 4, y + 14, "unknown", { class: "quiet" }));
    } else {
      const usual = Math.min(part.value_ns, part.usual_ns);
      group.append(bar(x(0), x(Math.max(usual, least)), y, "usual-bar"));
      if (part.excess_ns > 0) group.append(bar(x(part.usual_ns), x(part.value_ns), y, leader ? "excess-bar leader" : "excess-bar"));
      if (part.bound_conditional_ns) group.append(whiskerAt(x, part, y + 10));
      group.append(text(Math.max(x(part.value_ns), x(0)) + 8 + (part.bound_conditional_ns ? x(part.bound_conditional_ns) - x(0) : 0), y + 14, signed(part.excess_ns), { class: "quiet" }));
    }
    svg.append(group);
  });
  return svg;
}

const isLeader = (answer, part) => answer.kind !== "none" && part.entity === answer.entity;

const bar = (from, to, y, name) =>
  s("rect", { x: Math.min(from, to), y: y + 2, width: Math.max(1, Math.abs(to - from)), height: 16, class: name });

const whisker = (centre, y, half) =>
  s("path", { class: "whisker", d: `M${centre - half} ${y - 4}v8m0 -4h${2 * half}m0 -4v8` });

const whiskerAt = (x, part, y) => whisker(x(part.value_ns), y, x(part.bound_conditional_ns) - x(0));

function componentTable(answer) {
  return table(
    [{ name: "component" }, { name: "value", number: true }, { name: "bound", number: true }, { name: "usual", number: true },
      { name: "scatter", number: true }, { name: "samples", number: true }, { name: "excess", number: true }, { name: "notes", wrap: true }],
    answer.components.map((part) => ({
      class: isLeader(answer, part) ? "leader" : null,
      cells: [part.entity, duration(part.value_ns), part.bound_conditional_ns === 0 ? "one clock" : bound(part.bound_conditional_ns),
        duration(part.usual_ns), duration(part.spread_ns), count(part.samples), signed(part.excess_ns), part.notes.join("; ")],
    })));
}

function slowTable(transfers, chosen) {
  return table(
    [{ name: "transfer" }, { name: "job" }, { name: "step", number: true }, { name: "span" }, { name: "latency", number: true },
      { name: "usual", number: true }, { name: "excess", number: true }],
    transfers.map((t) => ({
      class: t.send_span_id === chosen ? "chosen" : null,
      cells: [h("a", { href: `#slow/${t.trace_id}/${t.send_span_id}` }, `${t.sender} → ${t.receiver}`), t.job, t.step ?? "",
        h("code", {}, t.send_span_id), duration(t.latency_corrected_ns), duration(t.usual_ns), signed(t.excess_ns)],
    })));
}
