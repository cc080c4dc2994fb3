// SPDX-License-Identifier: Apache-2.0
// One page, four views chosen by the address: #fabric, #clocks, #trace/ID, #slow/TRACE/SPAN.

import { h } from "./dom.js";
import { bound, count } from "./format.js";
import { showAttribution } from "./attribution.js";
import { showClocks } from "./clocks.js";
import { showFabric } from "./fabric.js";
import { showTrace } from "./trace.js";

const VIEWS = { fabric: showFabric, clocks: showClocks, trace: showTrace, slow: showAttribution };
const main = document.getElementById("main");
let drawing = 0;

export async function get(path) {
  const response = await fetch(path, { headers: { accept: "application/json" } });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.detail ?? `${path}: HTTP ${response.status}`);
  return body;
}

async function route() {
  const [name, ...rest] = location.hash.replace(/^#/, "").split("/");
  const view = VIEWS[name] ? name : "fabric";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const turn = ++drawing;
  const target = h("div", {});
  try {
    await VIEWS[view](target, rest.map(decodeURIComponent), get);
  } catch (error) {
    target.replaceChildren(h("p", { class: "error", role: "alert" }, String(error.message ?? error)));
  }
  if (turn === drawing) main.replaceChildren(target);
}

async function summarise() {
  const summary = await get("/v1/summary");
  document.getElementById("version").textContent = `correction version ${summary.correction_version}`;
  const { synchronised = 0, ...others } = summary.clocks.by_status;
  const rest = Object.entries(others).map(([k, n]) => `, ${n} ${k}`).join("");
  const cells = [
    [count(summary.spans), "spans"],
    [`${summary.links.asymmetric_found} of ${summary.links.fabric}`, "fabric links asymmetric"],
    [`${synchronised} of ${summary.clocks.total}`, `clocks synchronised${rest}`],
    [bound(summary.clocks.bound_conditional_ns_median),
      "median conditional bound of hosts, at the centre of the newest window; bounds grow away from it", "wide"],
    [`${count(summary.inversions.raw)} → ${count(summary.inversions.corrected)}`,
      `inversions raw → corrected, ${count(summary.inversions.undecided)} undecided`],
    [`${summary.transfers_slow} of ${count(summary.transfers)}`, "transfers clearly slower than usual"],
  ];
  document.getElementById("summary").replaceChildren(
    ...cells.map(([value, label, name]) => h("div", { class: name }, h("b", {}, value), h("span", {}, label))));
}

addEventListener("hashchange", route);
route();
summarise().catch((error) => {
  document.getElementById("version").textContent = `no summary: ${error.message}`;
});
