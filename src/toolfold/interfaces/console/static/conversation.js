// The programs of one conversation on one page, in their order, with what each did and cost.
import { get } from "./api.js";
import { bytes, fill, h, moment, pill, plural, seconds } from "./dom.js";

export async function conversation(main, { id }) {
  const rows = [];
  for (let before = ""; before !== null && rows.length < 2000;) {
    const found = await get("executions", { conversation: id, limit: 500, before });
    rows.unshift(...found.executions.reverse());
    before = found.next;
  }
  const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
  const cell = (text) => h("td", { class: "num" }, text);
  fill(main, h("div", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs"), h("span", { class: "muted" }, "/"), h("h1", {}, `Conversation ${id.slice(0, 60)}`)),
    h("div", { class: "facts" }, [plural(rows.length, "program"), plural(sum("calls"), "call"), `${seconds(sum("seconds"))} in total`, `${bytes(sum("saved_bytes"))} kept out of the context`].map((text) => h("span", {}, h("b", {}, text)))),
    h("div", { class: "panel" }, rows.length ? h("div", { class: "wide tall" }, h("table", { class: "conversation" },
      h("thead", {}, h("tr", {}, ["Started", "Status", "Program"].map((text) => h("th", {}, text)), ["Calls", "Duration", "Context saved"].map((text) => h("th", { class: "num" }, text)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("td", {}, moment(row.began_at)), h("td", {}, pill(row)),
        h("td", {}, h("a", { href: `#/runs/${encodeURIComponent(row.execution_id)}` }, row.title || row.first_line || "(empty)"), " ", row.tags.map((tag) => h("span", { class: "tag" }, tag))),
        cell(row.calls.toLocaleString()), cell(seconds(row.seconds)), cell(bytes(row.saved_bytes)))))))
      : h("div", { class: "empty" }, h("b", {}, "No programs of this conversation"), "They may have been forgotten since, or belong to another tenant.")));
}
