// SPDX-License-Identifier: Apache-2.0
// Requests with the token of this tab. It is kept in sessionStorage: gone when the tab is closed, and sent to
// nobody by the browser itself.

import { h } from "./dom.js";

const KEY = "tempotrace.token";

export async function request(path) {
  const token = sessionStorage.getItem(KEY);
  const headers = { accept: "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  return fetch(path, { headers });
}

// What is shown instead of an answer that needs another token; `retry` is called once one is entered.
export function signIn(reason, retry) {
  const input = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false",
    required: true, placeholder: "ttk_…" });
  const form = h("form", { class: "sign-in" },
    h("h2", {}, "Token"),
    h("p", { role: "alert" }, reason),
    h("label", { for: "token" }, "Token of this service, from "), h("code", {}, "tempotrace token create"), " ",
    input, " ", h("button", { type: "submit" }, "Use it"),
    h("p", { class: "quiet" }, "It is kept until this tab is closed."));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, input.value.trim());
    retry();
  });
  return form;
}

export const hasToken = () => sessionStorage.getItem(KEY) !== null;

export function signOut() {
  sessionStorage.removeItem(KEY);
  location.reload();
}
