// SPDX-License-Identifier: Apache-2.0
// The fabric: switches in tiers, each cable coloured by its asymmetry.

import { announce, drawn, facts, h, key, line, pressable, s, scroller, table, text, title } from "./dom.js";
import { bound, count, duration, signed } from "./format.js";

const ROW = { spine: 40, leaf: 230, host: 360 };

export async function showFabric(target, _parts, get) {
  const fabric = await get("/v1/fabric");
  if (fabric.nodes.length === 0) {
    target.append(h("h2", {}, "Fabric"), h("p", {}, "No fabric is loaded yet."));
    return;
  }
  const detail = announce(h("aside", { class: "panel", "aria-label": "Chosen cable" }));
  const bad = fabric.links.filter((link) => link.bad);
  const state = { chosen: null };
  const pick = (link) => detail.replaceChildren(...describe(link));
  const sorted = fabric.links.filter((link) => !link.access)
    .sort((a, b) => Math.abs(b.a_uv_ns ?? -1) - Math.abs(a.a_uv_ns ?? -1));
  if (sorted.length) pick(sorted[0]);
  target.append(
    h("h2", {}, "Fabric"),
    h("p", {}, `${bad.length} of ${sorted.length} cables between switches are asymmetric. ` +
      "The asymmetry a is half the one-way difference, positive when the first direction is the slower one. " +
      "Point at a cable, or move to it with the Tab key."),
    h("div", { class: "columns" }, scroller(drawn((width) => draw(fabric, pick, state, width), { aside: true })), detail),
    h("p", {},
      key(line(1, 7, 33, 7, "cable"), "symmetric"),
      key(s("line", { x1: 1, y1: 7, x2: 33, y2: 7, class: "cable bad", style: "stroke-width:4" }), "asymmetric, wider is more"),
      key(line(1, 7, 33, 7, "cable unknown"), "not observable"),
      key(s("g", { class: "node flagged" }, s("rect", { x: 2, y: 2, width: 30, height: 10 })), "clock not determined")),
    h("h3", {}, "Cables between switches"),
    linkTable(sorted));
}

function tiers(fabric) {
  const kind = new Map(fabric.nodes.map((node) => [node.name, node.kind]));
  const edge = new Set();
  for (const link of fabric.links) {
    if (kind.get(link.a) === "nic") edge.add(link.b);
    if (kind.get(link.b) === "nic") edge.add(link.a);
  }
  const tier = (node) => (node.kind === "nic" ? "host" : edge.has(node.name) ? "leaf" : "spine");
  return new Map(fabric.nodes.map((node) => [node.name, tier(node)]));
}

function places(fabric, width) {
  const tier = tiers(fabric);
  const at = new Map();
  for (const name of Object.keys(ROW)) {
    const members = fabric.nodes.filter((node) => tier.get(node.name) === name);
    members.forEach((node, i) => at.set(node.name, {
      x: (width * (i + 0.5)) / members.length, y: ROW[name], room: width / members.length,
    }));
  }
  return at;
}

function draw(fabric, pick, state, wide) {
  const at = places(fabric, wide);
  const svg = s("svg", { viewBox: `0 0 ${wide} 400`, class: "drawing", role: "group", "aria-label": "Fabric drawing" });
  const cables = [...fabric.links].sort((a, b) => Number(a.bad) - Number(b.bad));
  for (const link of cables) svg.append(cable(link, at, pick, svg, state));
  for (const node of fabric.nodes) {
    const { x, y, room } = at.get(node.name);
    const width = Math.min(84, room - 4);
    svg.append(s("g", { class: `node ${node.status}` },
      title(`${node.name}: clock ${node.status}${node.ip ? `, ${node.ip}` : ""}`),
      s("rect", { x: x - width / 2, y: y - 13, width, height: 26, rx: 4 }),
      text(x, y + 4, node.name, { "text-anchor": "middle" })));
  }
  return svg;
}

function cable(link, at, pick, svg, state) {
  const a = at.get(link.a);
  const b = at.get(link.b);
  const kind = link.bad ? "cable bad" : link.a_uv_ns === null ? "cable unknown" : "cable";
  const visible = line(a.x, a.y, b.x, b.y, kind);
  if (link.bad) visible.style.strokeWidth = 2 + Math.min(6, Math.abs(link.a_uv_ns ?? 0) / 60);
  const group = s("g", { class: link.name === state.chosen ? "link chosen" : "link", "aria-label": label(link) },
    title(label(link)), visible, line(a.x, a.y, b.x, b.y, "cable-hit"));
  const choose = () => {
    svg.querySelector(".chosen")?.classList.remove("chosen");
    group.classList.add("chosen");
    state.chosen = link.name;
    pick(link);
  };
  pressable(group, choose);
  group.addEventListener("focus", choose);
  group.addEventListener("pointerenter", choose);
  return group;
}

const label = (link) => `${link.name}: a = ${signed(link.a_uv_ns)}${link.bad ? ", asymmetric" : ""}`;

function describe(link) {
  const ends = [`${link.a}:${link.a_port}`, `${link.b}:${link.b_port}`];
  return [
    h("h3", {}, `${ends[0]} – ${ends[1]}`),
    h("p", {}, link.bad ? h("b", { class: "error" }, "asymmetric") : link.a_uv_ns === null
      ? "The asymmetry of this cable lies in no loop, so it cannot be observed; it widens its node's bound."
      : "symmetric within its uncertainty"),
    facts([
      ["asymmetry a", link.a_uv_ns === null ? "unknown" : `${signed(link.a_uv_ns)} (σ ${duration(link.sigma_ns)})`],
      [`${link.a} → ${link.b}`, duration(link.delay_ab_ns)],
      [`${link.b} → ${link.a}`, duration(link.delay_ba_ns)],
      ["speed", `${link.rate_bps / 1e9} Gb/s`],
      ...(link.samples_ab + link.samples_ba ? [["samples", `${count(link.samples_ab)} / ${count(link.samples_ba)}`]] : []),
    ]),
  ];
}

function linkTable(links) {
  return table(
    [{ name: "cable" }, { name: "asymmetry a", number: true }, { name: "σ", number: true },
      { name: "first → second", number: true }, { name: "second → first", number: true }, { name: "" }],
    links.map((link) => ({
      cells: [`${link.a}:${link.a_port} – ${link.b}:${link.b_port}`, signed(link.a_uv_ns), bound(link.sigma_ns),
        duration(link.delay_ab_ns), duration(link.delay_ba_ns),
        link.bad ? h("span", { class: "status flagged" }, "asymmetric") : ""],
    })));
}

