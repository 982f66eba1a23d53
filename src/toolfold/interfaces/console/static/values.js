// Values of programs and tools: a tree, a table for lists of records, pictures as pictures. Large ones are cut.
import { bytes, h } from "./dom.js";
import { write } from "./json.js";

const MOST = 200;
export const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

// `isWhole`: nothing of it is cut or closed, for whoever has to decide on it.
export function value(folded, isWhole = false) {
  if (!folded) return h("span", { class: "muted" }, "–");
  if (folded.head !== undefined) {
    return h("div", {}, h("div", { class: "muted small" }, `${bytes(folded.bytes)}; only the beginning is shown`), h("pre", { class: "tree" }, folded.head));
  }
  return h("div", {}, shown(folded.json, isWhole));
}

function shown(json, isWhole) {
  if (json && IMAGES.has(json.mime) && json.data?.base64) {
    return h("img", { src: `data:${json.mime};base64,${json.data.base64}`, alt: json.name || "image", style: { maxWidth: "100%" } });
  }
  if (!isWhole && isRecords(json)) return table(json);
  return h("div", { class: "tree" }, node(json, 0, isWhole));
}

function isRecords(json) {
  return Array.isArray(json) && json.length > 1 && json.every((row) => row && typeof row === "object" && !Array.isArray(row))
    && new Set(json.slice(0, 50).flatMap(Object.keys)).size <= 12;
}

export function table(rows, most = MOST) {
  const names = [...new Set(rows.slice(0, 50).flatMap(Object.keys))];
  const cell = (one) => (one === null || one === undefined ? "" : typeof one === "object" ? write(one) : String(one)).slice(0, 300);
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Records" }, h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { class: isNumber(rows[0]?.[name]) ? "num" : "" }, name)))),
    h("tbody", {}, rows.slice(0, most).map((row) => h("tr", {}, names.map((name) => h("td", { class: isNumber(row[name]) ? "num mono" : "mono" }, cell(row[name]))))))),
  rows.length > most ? h("div", { class: "muted small" }, `… and ${rows.length - most} more`) : null);
}

const isNumber = (one) => typeof one === "number" || typeof one === "bigint";

function node(json, depth, isWhole = false) {
  if (json === null || typeof json === "boolean" || isNumber(json)) return h("span", { class: "lit" }, String(json));
  if (typeof json === "string") return h("span", { class: "str" }, write(json.length > 5000 && !isWhole ? `${json.slice(0, 5000)}…` : json));
  const isList = Array.isArray(json);
  const entries = isList ? json.map((one, at) => [at, one]) : Object.entries(json);
  const most = isWhole ? entries.length : MOST;
  if (!entries.length) return h("span", {}, isList ? "[]" : "{}");
  const details = h("details", { open: isWhole || (depth < 2 && entries.length <= 40) }, h("summary", {}, isList ? `${entries.length} items` : `{ ${entries.length} }`));
  const open = () => {
    if (details.childElementCount > 1) return;
    details.append(...entries.slice(0, most).map(([key, one]) => h("div", {}, h("span", { class: "key" }, String(key)), ": ", node(one, depth + 1, isWhole))));
    if (entries.length > most) details.append(h("div", { class: "muted" }, `… and ${entries.length - most} more`));
  };
  if (details.open) open();
  details.addEventListener("toggle", open);
  return details;
}
