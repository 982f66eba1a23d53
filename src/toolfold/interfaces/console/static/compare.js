// Two runs of what was one program: what changed in the text, and in what it printed.
import { get } from "./api.js";
import { fill, h } from "./dom.js";

const MOST = 1500;

export function diff(before, after) {
  const one = before.split("\n").slice(0, MOST);
  const other = after.split("\n").slice(0, MOST);
  const table = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i -= 1) for (let j = other.length - 1; j >= 0; j -= 1) table[i][j] = one[i] === other[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const found = [];
  let i = 0;
  let j = 0;
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) { found.push(["eq", one[i]]); i += 1; j += 1; }
    else if (i < one.length && (j === other.length || table[i + 1][j] >= table[i][j + 1])) { found.push(["del", one[i]]); i += 1; }
    else { found.push(["add", other[j]]); j += 1; }
  }
  return found;
}

export async function compare(main, { id }) {
  const later = await get(`executions/${encodeURIComponent(id)}`);
  const earlier = await get(`executions/${encodeURIComponent(later.rerun_of)}`);
  const part = (title, before, after) => h("div", { class: "panel" }, h("header", {}, h("h2", {}, title)), h("div", { class: "diff body" }, diff(before, after).map(([kind, text]) => h("div", { class: kind }, text || " "))));
  const calls = later.events.filter((event) => event.type === "replied");
  const kept = calls.filter((event) => event.from_record).length;
  fill(main, h("div", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs"), h("span", { class: "muted" }, "/"), h("a", { class: "mono", href: `#/runs/${encodeURIComponent(id)}` }, id), h("span", { class: "muted" }, "/"), h("h1", {}, "Compared with "), h("a", { class: "mono", href: `#/runs/${encodeURIComponent(later.rerun_of)}` }, later.rerun_of)),
    h("div", { class: "note small" }, `${kept} of ${calls.length} replies came from the record; new calls: ${calls.length - kept}.`),
    h("div", { class: "stack" }, part("Program", earlier.program, later.program), part("Output", earlier.outcome?.stdout ?? "", later.outcome?.stdout ?? "")));
}
