// SPDX-License-Identifier: Apache-2.0
// Clocks: how far each host's clock is off, and how well that is known. #clocks/NAME has all rows of one.

import { drawn, h, key, line, s, scroller, statusBadge, table, text, title } from "./dom.js";
import { bound, count, duration, instant, minus, rate, signed, since, ticks } from "./format.js";

const LEFT = 70;
const STEP = 30;
const ARBITRARY_NS = 1e12; // an offset this large is a counter with an epoch of its own

export async function showClocks(target, [name], get) {
  if (name) await showOne(target, name, get);
  else await showAll(target, get);
}

async function showAll(target, get) {
  const answer = await get("/v1/clocks");
  const clocks = answer.clocks.filter((clock) => clock.centre);
  const hosts = clocks.filter((clock) => clock.kind !== "switch");
  const switches = clocks.filter((clock) => clock.kind === "switch");
  const without = answer.clocks.filter((clock) => !clock.centre);
  target.append(h("h2", {}, "Clocks"));
  if (clocks.length === 0) {
    target.append(h("p", {}, "There is no correction yet: every clock is unknown."));
    return;
  }
  const reports = hosts.some((clock) => clock.centre.ptp_offset_ns !== null);
  const plot = h("div", {}, plotOf(hosts.map((clock) => [clock, clock.centre])));
  const controls = h("div", { class: "controls" }, h("span", { class: "quiet" }, "Reading the other intervals …"));
  const histories = new Map(clocks.map((clock) => [clock.clock, h("span", {})]));
  target.append(...[
    h("p", {}, "What each host's clock is off by, as measured, and what is left after correction. ",
      reports ? "A PTP client cannot see this error. What it reports is the offset of single exchanges, which queueing " +
        "scatters around zero: its servo steers their mean there, whatever the delays of the two directions differ by." : null),
    h("p", {},
      key(s("circle", { cx: 17, cy: 7, r: 4.5, class: "raw-mark" }), "raw: estimated offset"),
      key(s("rect", { x: 12, y: 2, width: 10, height: 10, class: "corrected-mark" }), "corrected"),
      key(line(2, 7, 32, 7, "corrected-line conditional"), "conditional bound"),
      key(line(2, 7, 32, 7, "corrected-line hard"), "hard bound"),
      reports ? key(s("path", { d: "M17 1 l6 6 -6 6 -6 -6z", class: "whisker" }), "what PTP reports of one exchange") : null),
    controls, plot,
    h("p", { class: "note" }, "The tables show each clock at the centre of the newest window; bounds grow away from it. " +
      "A clock's name leads to all its intervals. ",
    answer.prior ? `Conditional bounds hold under this prior: ${answer.prior}.` : null),
    h("h3", {}, "Hosts"), clockTable(hosts, histories),
    switches.length ? h("h3", {}, "Switches") : null,
    switches.length ? h("p", { class: "quiet" }, "Switch clocks are free-running: nothing steers them and each has its own epoch. " +
      "Their offset to the reference is estimated like any other; synchronised means that it is determined.") : null,
    switches.length ? clockTable(switches, histories) : null,
    without.length ? h("p", {}, `Without a correction, so unknown: ${without.map((clock) => clock.clock).join(", ")}.`) : null,
  ].filter(Boolean));
  get("/v1/clocks?all=true").then((all) => {
    const byName = new Map(all.clocks.map((clock) => [clock.clock, clock]));
    for (const [clock, place] of histories) place.replaceChildren(...history(byName.get(clock)));
    timeControls(controls, plot, hosts.map((clock) => byName.get(clock.clock)));
  }).catch((error) => controls.replaceChildren(h("span", { class: "error" }, String(error.message ?? error))));
}

// A slider over the intervals of all time; the tables below stay at the newest window's centre.
function timeControls(controls, plot, hosts) {
  const middle = (row) => (BigInt(row.valid_from_local_ns) + BigInt(row.valid_to_local_ns)) / 2n - BigInt(row.offset_ns);
  const longest = hosts.reduce((a, b) => (b.corrections.length > a.corrections.length ? b : a));
  const moments = longest.corrections.map(middle);
  if (moments.length < 2) {
    controls.hidden = true;
    return;
  }
  const same = (row) => row.valid_from_local_ns === longest.centre.valid_from_local_ns;
  const centre = longest.corrections.findIndex(same) + 1;
  const caption = h("output", { for: "moment", class: "quiet" });
  const slider = h("input", { type: "range", min: 1, max: moments.length, value: centre, id: "moment", oninput: () => show() });
  const rowAt = (clock, moment) => {
    const off = (row) => Math.max(
      since(row.valid_from_local_ns, moment + BigInt(row.offset_ns)), since(moment + BigInt(row.offset_ns), row.valid_to_local_ns));
    return clock.corrections.reduce((a, b) => (off(b) < off(a) ? b : a));
  };
  const show = () => {
    const number = Number(slider.value);
    const moment = moments[number - 1];
    const away = Number(moment - moments[centre - 1]);
    caption.textContent = `interval ${number} of ${moments.length}, ${instant(moment)} on the reference clock, ` +
      (number === centre ? "the centre of the newest window" : `${signed(away)} from the centre of the newest window`);
    plot.replaceChildren(plotOf(hosts.map((clock) => [clock, number === centre ? clock.centre : rowAt(clock, moment)])));
  };
  controls.replaceChildren(h("label", { for: "moment" }, "Correction interval"), slider,
    h("button", { type: "button", onclick: () => { slider.value = centre; show(); } }, "Newest centre"), caption);
  show();
}

const plotOf = (chosen) => scroller(drawn((width) => draw(chosen, width)));

function draw(chosen, width) {
  const offsets = chosen.map(([, row]) => Number(row.offset_ns));
  const extent = chosen.map(([, row], i) => Math.max(
    Math.abs(offsets[i]) + (row.bound_conditional_ns ?? 0), Math.abs(row.ptp_offset_ns ?? 0)));
  const limit = 1.12 * Math.max(...extent, ...chosen.map(([, r]) => r.bound_conditional_ns ?? 0), 10);
  const x = (ns) => LEFT + ((Math.max(-limit, Math.min(limit, ns)) + limit) / (2 * limit)) * (width - LEFT - 10);
  const height = chosen.length * STEP + 34;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "drawing", role: "img",
    "aria-label": "Raw and corrected offset per host; the table below has the numbers" });
  for (const value of ticks(-limit, limit, 8)) {
    svg.append(line(x(value), 4, x(value), height - 24, value === 0 ? "zero" : "axis"),
      text(x(value), height - 8, signed(value), { "text-anchor": "middle", class: "quiet" }));
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

const ptp = (row) => (row.ptp_offset_ns === null ? "–" : signed(row.ptp_offset_ns));

function clockTable(clocks, histories) {
  const steered = clocks.some((clock) => clock.centre.ptp_offset_ns !== null);
  const noted = clocks.some((clock) => clock.centre.reason);
  return table(
    [{ name: "clock" }, { name: "status" }, { name: "offset", number: true },
      ...(steered ? [{ name: "one PTP exchange", number: true }] : []),
      { name: "rate", number: true }, { name: "conditional", number: true }, { name: "hard", number: true },
      { name: "method" }, { name: "history" }, ...(noted ? [{ name: "notes", wrap: true }] : [])],
    clocks.map((clock) => {
      const row = clock.centre;
      const offset = Number(row.offset_ns);
      return { cells: [
        h("a", { href: `#clocks/${encodeURIComponent(clock.clock)}` }, clock.clock), statusBadge(row.status),
        Math.abs(offset) > ARBITRARY_NS ? h("span", { title: `${minus(row.offset_ns)} ns` }, "own epoch") : signed(offset),
        ...(steered ? [ptp(row)] : []), rate(row.rate_ppb), bound(row.bound_conditional_ns), bound(row.bound_hard_ns),
        row.method, histories.get(clock.clock), ...(noted ? [row.reason] : [])] };
    }));
}

function history(clock) {
  const rows = clock.corrections;
  if (rows.length < 2) return [];
  const values = rows.map((row) => since(row.offset_ns, rows[0].offset_ns));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const point = (value, i) => `${2 + (96 * i) / (values.length - 1)},${15 - (12 * (value - low)) / (high - low || 1)}`;
  return [s("svg", { viewBox: "0 0 100 18", role: "img",
    "aria-label": `offset over ${count(rows.length)} intervals, from ${signed(values[0])} to ${signed(values.at(-1))} relative to the first` },
  title(`range ${duration(high - low)} over ${rows.length} intervals`),
  s("polyline", { points: values.map(point).join(" "), class: "corrected-line", fill: "none" }))];
}

async function showOne(target, name, get) {
  const answer = await get("/v1/clocks?all=true");
  const clock = answer.clocks.find((item) => item.clock === name);
  target.append(h("h2", {}, `Clock ${name}`), h("p", {}, h("a", { href: "#clocks" }, "All clocks")));
  if (!clock?.centre) {
    target.append(h("p", {}, clock ? "There is no correction for it: it is unknown." : "There is no such clock."));
    return;
  }
  const { centre } = clock;
  const steered = clock.corrections.some((row) => row.ptp_offset_ns !== null);
  const noted = clock.corrections.some((row) => row.reason);
  const own = Math.abs(Number(centre.offset_ns)) > ARBITRARY_NS;
  target.append(...[
    h("p", {}, `${count(clock.corrections.length)} correction intervals, newest first; the marked one is the centre of the newest ` +
      "window. Both bounds are the largest within the interval. " +
      (own ? `The clock has its own epoch: offsets are shown less ${minus(centre.offset_ns)} ns, that of the marked interval.` : "")),
    answer.prior ? h("p", { class: "note" }, `Conditional bounds hold under this prior: ${answer.prior}.`) : null,
    table([{ name: "from, on the clock itself" }, { name: "length", number: true }, { name: "offset", number: true },
      { name: "conditional", number: true }, { name: "hard", number: true }, { name: "rate", number: true },
      ...(steered ? [{ name: "one PTP exchange", number: true }] : []), { name: "status" }, { name: "window", number: true },
      ...(noted ? [{ name: "notes", wrap: true }] : [])],
    clock.corrections.toReversed().map((row) => ({
      class: row.valid_from_local_ns === centre.valid_from_local_ns ? "chosen" : null,
      cells: [own ? `${row.valid_from_local_ns} ns` : instant(row.valid_from_local_ns),
        duration(since(row.valid_to_local_ns, row.valid_from_local_ns)),
        signed(own ? since(row.offset_ns, centre.offset_ns) : Number(row.offset_ns)),
        bound(row.bound_conditional_ns), bound(row.bound_hard_ns), rate(row.rate_ppb), ...(steered ? [ptp(row)] : []),
        statusBadge(row.status), count(row.window_index), ...(noted ? [row.reason] : [])] }))),
  ].filter(Boolean));
}
