// SPDX-License-Identifier: Apache-2.0
// One page, four views chosen by the address: #fabric, #clocks, #trace/ID, #slow/TRACE/SPAN.

import { h } from "./dom.js";
import { bound, count } from "./format.js";
import { showAttribution } from "./attribution.js";
import { showClocks } from "./clocks.js";
import { showFabric } from "./fabric.js";
import { hasToken, request, signIn, signOut } from "./session.js";
import { showTrace } from "./trace.js";

const VIEWS = { fabric: showFabric, clocks: showClocks, trace: showTrace, slow: showAttribution };
const main = document.getElementById("main");
let drawing = 0;

export async function get(path) {
  const response = await request(path);
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  throw Object.assign(new Error(body.detail ?? `${path}: HTTP ${response.status}`), { status: response.status });
}

async function route() {
  const [name, ...rest] = location.hash.replace(/^#/, "").split("/");
  const view = VIEWS[name] ? name : await firstView;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const turn = ++drawing;
  const target = h("div", {});
  try {
    await VIEWS[view](target, rest.map(decodeURIComponent), get);
  } catch (error) {
    target.replaceChildren(error.status === 401 ? signIn(error.message, () => location.reload())
      : h("p", { class: "error", role: "alert" }, String(error.message ?? error)));
  }
  if (turn === drawing) main.replaceChildren(target);
}

async function summarise() {
  const summary = await get("/v1/summary");
  document.getElementById("version").textContent = `correction version ${summary.correction_version}`;
  const cells = [
    [count(summary.spans), "spans"],
    ...(summary.clocks ? fabricCells(summary) : []),
    [`${count(summary.inversions.raw)} → ${count(summary.inversions.corrected)}`,
      `inversions raw → corrected, ${count(summary.inversions.undecided)} undecided`],
    [`${summary.transfers_slow} of ${count(summary.transfers)}`, "transfers clearly slower than usual"],
  ];
  document.getElementById("summary").replaceChildren(
    ...cells.map(([value, label, name]) => h("div", { class: name }, h("b", {}, value), h("span", {}, label))));
  return summary;
}

function fabricCells(summary) {
  const { synchronised = 0, ...others } = summary.clocks.by_status;
  const rest = Object.entries(others).map(([k, n]) => `, ${n} ${k}`).join("");
  return [
    [`${summary.links.asymmetric_found} of ${summary.links.fabric}`, "fabric links asymmetric"],
    [`${synchronised} of ${summary.clocks.total}`, `clocks synchronised${rest}`],
    [bound(summary.clocks.bound_conditional_ns_median),
      "median conditional bound of hosts, at the centre of the newest window; bounds grow away from it", "wide"],
  ];
}

// Fabric and clocks are shown to those who may see them.
function offer(summary) {
  for (const link of document.querySelectorAll("nav a")) {
    if (["#fabric", "#clocks"].includes(link.getAttribute("href"))) link.hidden = !summary.clocks;
  }
  return summary.clocks ? "fabric" : "trace";
}

if (hasToken()) {
  document.querySelector("nav").append(h("button", { type: "button", onclick: signOut }, "Forget token"));
}
const firstView = summarise().then(offer).catch((error) => {
  document.getElementById("version").textContent = `no summary: ${error.message}`;
  return "fabric";
});
addEventListener("hashchange", route);
route();
