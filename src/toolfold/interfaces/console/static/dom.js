// Everything on the page is made here, and text is only ever text: no markup is parsed anywhere.
import { escaped } from "./json.js";

export function h(tag, options = {}, ...children) {
  const element = tag === "svg" || SVG.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : SHOWN.has(name) ? visible(String(value)) : String(value));
  }
  element.append(...nodes(children));
  return element;
}

// Characters that turn around what is written beside them: a text with them would read as another one.
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const SHOWN = new Set(["title", "alt", "aria-label", "placeholder"]);
export const visible = (text) => text.replace(TURNING, escaped);

function nodes(children) {
  return children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false).flatMap((one) => (one instanceof Node ? one : marked(String(one))));
}

function marked(text) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(TURNING)) {
    const code = match[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(text.slice(last, match.index), h("span", { class: "turning", title: `U+${code}, changes the direction of text` }, escaped(match[0])));
    last = match.index + 1;
  }
  parts.push(text.slice(last));
  return parts;
}

const SVG = new Set(["rect", "line", "text", "g", "path"]);

export function fill(element, ...children) {
  keepFocus(element, () => element.replaceChildren(...nodes(children)));
  return element;
}

// After a live update the focus is where it was: in the same row or group, on the element of the same name. If that is
// gone, it is nowhere, so that Enter never acts on another call.
export function keepFocus(element, replace) {
  const before = document.activeElement;
  if (!before || before === element || !element.contains(before)) { replace(); return; }
  const anchor = before.closest("[data-key], [data-tool]");
  const scope = anchor && element.contains(anchor) ? anchor : element;
  const alike = (root) => [...root.querySelectorAll(before.tagName)].filter((one) => label(one) === label(before));
  const at = alike(scope).indexOf(before);
  replace();
  if (element.contains(before)) return;
  const name = scope.dataset.key === undefined ? "tool" : "key";
  const again = scope === element ? element : element.querySelector(`[data-${name}="${CSS.escape(scope.dataset[name])}"]`);
  if (again) (before === scope ? again : alike(again)[at])?.focus({ preventScroll: true });
}

const label = (one) => one.id || one.getAttribute("href") || one.getAttribute("aria-label") || one.textContent.replace(/[\d.,]+/g, "");

// Lets the browser draw and answer in between.
export const breathe = () => new Promise((go) => { setTimeout(go); });

export function toast(text) {
  const one = h("div", {}, text);
  document.getElementById("toast").append(one);
  setTimeout(() => one.remove(), 5000);
}

// Plain http has no clipboard of its own.
export async function copy(text, what) {
  try { await navigator.clipboard.writeText(text); } catch {
    const field = h("textarea", { value: text, "aria-hidden": "true", class: "offscreen" });
    const before = document.activeElement;
    document.body.append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    before?.focus();
    if (!isCopied) { toast("The browser did not allow copying"); return; }
  }
  toast(`Copied ${what}`);
}

export const copyButton = (label, text, what) => h("button", { class: "small", type: "button", onclick: () => copy(typeof text === "function" ? text() : text, what) }, label);

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.0995) return `${(value * 1000).toFixed(value < 0.00995 ? 1 : 0)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  const whole = Math.round(value);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

// How long a call has waited for a person, and when it is refused; the times count on while the page is open.
export function waiting(since, until) {
  const element = h("span", { class: "wait num", "data-since": since, "data-until": until ?? null });
  element.textContent = waitingText(element);
  return element;
}

function waitingText(element) {
  const now = Date.now() / 1000;
  const { since, until } = element.dataset;
  if (!until) return `waiting ${roughly(now - since)}`;
  element.classList.toggle("soon", until - now < Math.max(60, (until - since) / 10));
  return `waiting ${roughly(now - since)} · ${until > now ? `expires in ${roughly(until - now)}` : "expired"}`;
}

setInterval(() => { for (const element of document.querySelectorAll(".wait")) element.textContent = waitingText(element); }, 1000);

function roughly(value) {
  if (value < 60) return `${Math.max(0, Math.floor(value))} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min`;
  return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
}

export function rounded(value) {
  return Math.round(value).toLocaleString().replace("-", "−");
}

// US dollars; small ones with two digits that count.
export function money(value) {
  const size = Math.abs(value);
  const text = size >= 0.995 ? size.toFixed(2) : size === 0 ? "0" : Number(size.toPrecision(2)).toFixed(Math.min(8, Math.max(2, 1 - Math.floor(Math.log10(size)))));
  return `${value < 0 ? "−" : ""}$${text}`;
}

export function bytes(value) {
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (size < 1000) return `${sign}${size} B`;
  if (size < 1e6) return `${sign}${(size / 1e3).toFixed(size < 1e4 ? 1 : 0)} kB`;
  if (size < 1e9) return `${sign}${(size / 1e6).toFixed(size < 1e7 ? 1 : 0)} MB`;
  return `${sign}${(size / 1e9).toFixed(1)} GB`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
export const moment = (at) => day.format(new Date(at * 1000));

export function ago(at) {
  const past = Date.now() / 1000 - at;
  if (past < 60) return `${Math.max(0, Math.floor(past))} s ago`;
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  if (past < 43200) return clock.format(new Date(at * 1000));
  return moment(at);
}

export const plural = (count, word) => `${count.toLocaleString()} ${word}${count === 1 ? "" : "s"}`;

export const pill = (row) => {
  const word = row.waiting ? "waiting" : row.status || row.state;
  return h("span", { class: `pill ${word}` }, word);
};
