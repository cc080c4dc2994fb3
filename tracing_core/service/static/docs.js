// SPDX-License-Identifier: Apache-2.0
// A readable page over openapi.json; GET operations can be tried.

import { announce, h, table } from "./dom.js";
import { request, signIn } from "./session.js";

const main = document.getElementById("main");

function operation(path, method, spec, components) {
  const parameters = spec.parameters ?? [];
  const inputs = new Map();
  const output = announce(h("pre", { hidden: true }));
  const rows = parameters.map((p) => {
    const input = h("input", { type: "search", "aria-label": p.name, placeholder: String(p.schema?.default ?? "") });
    inputs.set(p, input);
    return { cells: [h("code", {}, p.name), p.in, p.description ?? "", method === "get" ? input : ""] };
  });
  const schema = spec.responses?.["200"]?.content?.["application/json"]?.schema?.$ref?.split("/").pop();
  const run = async () => {
    let url = path;
    const query = new URLSearchParams();
    for (const [p, input] of inputs) {
      if (p.in === "path") url = url.replace(`{${p.name}}`, encodeURIComponent(input.value));
      else if (input.value) query.set(p.name, input.value);
    }
    const response = await request(query.size ? `${url}?${query}` : url);
    output.hidden = false;
    output.textContent = `HTTP ${response.status}\n${JSON.stringify(await response.json(), null, 1)}`;
  };
  return h("details", {},
    h("summary", {}, h("code", {}, `${method.toUpperCase()} ${path}`), ` ${spec.description ?? spec.summary ?? ""}`),
    scope(spec),
    parameters.length ? table([{ name: "parameter" }, { name: "in" }, { name: "meaning", wrap: true }, { name: "" }], rows) : null,
    method === "get" ? h("button", { type: "button", onclick: run }, "Try it") : null,
    output,
    schema ? fields(schema, components) : null);
}

function scope(spec) {
  const needed = (spec.security ?? []).flatMap((item) => Object.values(item)).flat();
  return needed.length ? h("p", { class: "quiet" }, `Scope: ${needed.join(", ")}`) : null;
}

function fields(name, components) {
  const schema = components.schemas[name];
  const type = (p) => p.$ref?.split("/").pop() ?? p.type ?? (p.anyOf ?? []).map(type).join(" or ");
  const item = (p) => (p.items ? `array of ${type(p.items)}` : type(p));
  return h("div", {}, h("h3", {}, `Answer: ${name}`), schema.description ? h("p", {}, schema.description) : null,
    table([{ name: "field" }, { name: "type" }, { name: "meaning", wrap: true }],
      Object.entries(schema.properties ?? {}).map(([key, p]) => ({ cells: [h("code", {}, key), item(p), p.description ?? ""] }))));
}

const answer = await request("/openapi.json");
const spec = await answer.json();
if (answer.ok) {
  main.append(h("p", {}, spec.info.description));
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const [method, body] of Object.entries(methods)) main.append(operation(path, method, body, spec.components));
  }
} else {
  main.append(signIn(spec.detail ?? `HTTP ${answer.status}`, () => location.reload()));
}
