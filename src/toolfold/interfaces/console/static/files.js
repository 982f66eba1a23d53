// Files of a run: a picture as a picture, a table as a table, of a text the beginning; nothing is loaded unasked but pictures.
import { bytes, fill, h } from "./dom.js";
import { IMAGES, table } from "./values.js";

const MOST_BYTES = 3e6;
const MOST_CHARACTERS = 20_000;
const MOST_ROWS = 50;
const TEXTS = new Set(["text/plain", "text/csv"]);

export function files(id, title, all) {
  if (!all.length) return null;
  return h("div", { class: "panel", "data-key": title }, h("header", {}, h("h2", {}, title), h("span", { class: "muted small num" }, String(all.length))), h("ul", { class: "body files" }, all.map((file) => one(id, file))));
}

function one(id, file) {
  const address = `api/executions/${encodeURIComponent(id)}/files/${file.name.split("/").map(encodeURIComponent).join("/")}`;
  const isSmall = file.size <= MOST_BYTES;
  return h("li", {}, h("a", { class: "mono", href: address, target: "_blank", rel: "noopener" }, file.name), h("span", { class: "muted num" }, ` ${bytes(file.size)}`),
    IMAGES.has(file.mime) && isSmall ? h("div", {}, h("img", { alt: file.name, src: address })) : null,
    TEXTS.has(file.mime) && isSmall ? preview(address, file) : null);
}

function preview(address, file) {
  const place = h("div", {}, h("span", { class: "muted" }, "…"));
  const load = async () => {
    const answer = await fetch(address, { credentials: "same-origin" });
    const text = answer.ok ? await answer.text() : `the server responded with status ${answer.status}`;
    fill(place, answer.ok && file.mime === "text/csv" ? table(records(text), MOST_ROWS) : h("pre", { class: "tree" }, text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text));
  };
  const details = h("details", {}, h("summary", { class: "small" }, "Preview"), place);
  details.addEventListener("toggle", () => { if (details.open && !details.dataset.loaded) { details.dataset.loaded = "yes"; load(); } });
  return details;
}

// Rows of a CSV file as records; quotes may hold commas, line ends and doubled quotes.
export function records(text) {
  const rows = [];
  let row = [];
  let cell = "";
  let isQuoted = false;
  const end = () => { row.push(cell); cell = ""; };
  for (let at = 0; at < text.length && rows.length <= MOST_ROWS + 1; at += 1) {
    const sign = text[at];
    if (isQuoted) { if (sign !== '"') cell += sign; else if (text[at + 1] === '"') { cell += sign; at += 1; } else isQuoted = false; }
    else if (sign === '"') isQuoted = true;
    else if (sign === ",") end();
    else if (sign === "\n") { end(); rows.push(row); row = []; }
    else if (sign !== "\r") cell += sign;
  }
  if (cell || row.length) { end(); rows.push(row); }
  const names = (rows[0] ?? []).map((name, at) => name || `column ${at + 1}`);
  return rows.slice(1).map((one) => Object.fromEntries(names.map((name, at) => [name, one[at] ?? ""])));
}
