// SPDX-License-Identifier: Apache-2.0
// Clocks: how far each host's clock is off, and how well that is known.

import { h, key, line, s, statusBadge, table, text, title } from "./dom.js";
import { bound, count, duration, signed, since, ticks } from "./format.js";

const WIDTH = 1000;
const LEFT = 70;
const STEP = 30;

export async function showClocks(target, parts, get) {
  const answer = await get("/v1/clocks");
  const clocks = answer.clocks.filter((clock) => clock.corrections.length > 0);
  const hosts = clocks.filter((clock) => clock.kind !== "switch");
  const switches = clocks.filter((clock) => clock.kind === "switch");
  target.append(h("h2", {}, "Clocks"));
  if (clocks.length === 0) {
    target.append(h("p", {}, "There is no correction yet: every clock is unknown."));
    return;
  }
  const plot = h("div", { class: "scroll" });
  const moments = Math.max(...hosts.map((clock) => clock.corrections.length), 1);
  const reports = clocks.some((clock) => clock.corrections.some((row) => row.ptp_offset_ns !== null));
  const slider = h("input", { type: "range", min: 1, max: moments, value: moments, id: "moment",
    oninput: () => redraw() });
  const caption = h("output", { for: "moment", class: "quiet" });
  const redraw = () => {
    const share = moments > 1 ? (slider.value - 1) / (moments - 1) : 1;
    const chosen = hosts.map((clock) => [clock, clock.corrections[Math.round(share * (clock.corrections.length - 1))]]);
    caption.textContent = ` interval ${slider.value} of ${moments}`;
    plot.replaceChildren(draw(chosen));
  };
  target.append(
    h("p", {}, "What each host's clock is off by, as measured, and what is left after correction. " +
      "A PTP client cannot see this error: its own offset stays near zero."),
    h("p", {},
      key(s("circle", { cx: 17, cy: 7, r: 4.5, class: "raw-mark" }), "raw: estimated offset"),
      key(s("rect", { x: 12, y: 2, width: 10, height: 10, class: "corrected-mark" }), "corrected"),
      key(line(2, 7, 32, 7, "corrected-line conditional"), "conditional bound"),
      key(line(2, 7, 32, 7, "corrected-line hard"), "hard bound"),
      reports ? key(s("path", { d: "M17 1 l6 6 -6 6 -6 -6z", class: "whisker" }), "what PTP itself reports") : null),
    h("div", { class: "controls", hidden: moments < 2 }, h("label", { for: "moment" }, "Correction interval"), slider, caption),
    plot,
    h("h3", {}, "Hosts, newest correction"), clockTable(hosts),
    h("h3", {}, "Switches, newest correction"),
    h("p", { class: "quiet" }, "Switch clocks are not synchronised; their offset is relative to an arbitrary epoch."),
    clockTable(switches));
  redraw();
}

function draw(chosen) {
  const offsets = chosen.map(([, row]) => Number(row.offset_ns));
  const extent = chosen.map(([, row], i) => Math.abs(offsets[i]) + (row.bound_conditional_ns ?? 0));
  const limit = 1.12 * Math.max(...extent, ...chosen.map(([, r]) => r.bound_conditional_ns ?? 0), 10);
  const x = (ns) => LEFT + ((Math.max(-limit, Math.min(limit, ns)) + limit) / (2 * limit)) * (WIDTH - LEFT - 10);
  const height = chosen.length * STEP + 34;
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "Raw and corrected offset per host; the table below has the numbers" });
  for (const value of ticks(-limit, limit, 8)) {
    svg.append(line(x(value), 4, x(value), height - 24, value === 0 ? "zero" : "axis"),
      text(x(value), height - 8, duration(value), { "text-anchor": "middle", class: "quiet" }));
  }
  chosen.forEach(([clock, row], i) => {
    const y = 20 + i * STEP;
    const group = s("g", {}, title(describe(clock, row)), text(0, y + 4, clock.clock));
    whiskers(group, x, y - 5, offsets[i], row, "raw-line", limit);
    whiskers(group, x, y + 7, 0, row, "corrected-line", limit);
    if (row.ptp_offset_ns !== null) {
      group.append(s("path", { d: `M${x(row.ptp_offset_ns)} ${y - 11} l6 6 -6 6 -6 -6z`, class: "whisker" }));
    }
    group.append(s("circle", { cx: x(offsets[i]), cy: y - 5, r: 4.5, class: "raw-mark" }),
      s("rect", { x: x(0) - 4, y: y + 3, width: 8, height: 8, class: "corrected-mark" }));
    svg.append(group);
  });
  return svg;
}

// An infinite bound runs off both ends of the plot.
function whiskers(group, x, y, centre, row, name, limit) {
  const hard = row.bound_hard_ns ?? 4 * limit;
  const conditional = row.bound_conditional_ns ?? 4 * limit;
  group.append(line(x(centre - hard), y, x(centre + hard), y, `${name} hard`),
    line(x(centre - conditional), y, x(centre + conditional), y, `${name} conditional`));
}

const describe = (clock, row) =>
  `${clock.clock}: offset ${signed(Number(row.offset_ns))}, conditional ${bound(row.bound_conditional_ns)}, ` +
  `hard ${bound(row.bound_hard_ns)}, ${row.status}`;

function clockTable(clocks) {
  return table(
    [{ name: "clock" }, { name: "status" }, { name: "offset", number: true }, { name: "PTP's own", number: true },
      { name: "rate", number: true }, { name: "conditional", number: true }, { name: "hard", number: true },
      { name: "history" }, { name: "method and prior", wrap: true }],
    clocks.map((clock) => {
      const row = clock.corrections.at(-1);
      const offset = Number(row.offset_ns);
      return { cells: [clock.clock, statusBadge(row.status),
        Math.abs(offset) > 1e12 ? "arbitrary" : signed(offset),
        row.ptp_offset_ns === null ? "–" : signed(row.ptp_offset_ns),
        `${row.rate_ppb.toFixed(1)} ppb`, bound(row.bound_conditional_ns), bound(row.bound_hard_ns),
        history(clock), [row.method, row.prior, row.reason].filter(Boolean).join("; ")] };
    }));
}

function history(clock) {
  const rows = clock.corrections;
  if (rows.length < 2) return "";
  const values = rows.map((row) => since(row.offset_ns, rows[0].offset_ns));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const point = (value, i) => `${2 + (96 * i) / (values.length - 1)},${15 - (12 * (value - low)) / (high - low || 1)}`;
  return s("svg", { viewBox: "0 0 100 18", style: "width:100px", role: "img",
    "aria-label": `offset over ${count(rows.length)} intervals, from ${signed(values[0])} to ${signed(values.at(-1))} relative to the first` },
    title(`range ${duration(high - low)} over ${rows.length} intervals`),
    s("polyline", { points: values.map(point).join(" "), class: "corrected-line", fill: "none" }));
}
