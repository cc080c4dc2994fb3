// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them. Unknown is a word, never a zero.

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];

export function duration(ns, digits = 3) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return "unknown";
  for (const [size, unit] of UNITS) {
    if (Math.abs(ns) >= size) return `${trim(ns / size, digits)} ${unit}`;
  }
  return `${trim(ns, 2)} ns`;
}

export const bound = (ns) => (ns === null || ns === undefined ? "unbounded" : `± ${duration(ns)}`);

export function signed(ns) {
  if (ns === null || ns === undefined) return "unknown";
  return (ns > 0 ? "+" : "") + duration(ns);
}

export function rate(ppb) {
  const [value, unit] = Math.abs(ppb) >= 1000 ? [ppb / 1000, "ppm"] : [ppb, "ppb"];
  return `${ppb > 0 ? "+" : ""}${trim(value, 2)} ${unit}`;
}

export const count = (n) => minus(Number(n).toLocaleString("en-US").replaceAll(",", "\u202f"));

// An instant in ns, as date and time to the millisecond on the clock that took it.
export const instant = (ns) =>
  new Date(Number(BigInt(ns) / 1_000_000n)).toISOString().replace("T", " ").replace("Z", "");

const trim = (value, digits) => minus(Number(value.toPrecision(digits + 1)).toString());

// One minus sign everywhere, as wide as the plus sign.
export const minus = (text) => text.replaceAll("-", "\u2212");

// Instants exceed 2^53: subtract as BigInt first, then it is a Number.
export const since = (instant, origin) => Number(BigInt(instant) - BigInt(origin));

// Round steps for an axis of about `wanted` ticks.
export function ticks(low, high, wanted = 6) {
  const raw = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * power).find((value) => value >= raw);
  const first = Math.ceil(low / step) * step;
  const result = [];
  for (let value = first; value <= high + step * 1e-9; value += step) result.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  return result;
}
