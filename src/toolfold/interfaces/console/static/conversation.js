// The programs of one conversation on one page, in their order, with what each did and cost.
import { get } from "./api.js";
import { bytes, fill, h, moment, money, pill, plural, rounded, seconds } from "./dom.js";

const MOST = 2000;

export async function conversation(main, { id }) {
  const rows = [];
  let before = "";
  while (before !== null && rows.length < MOST) {
    const found = await get("executions", { conversation: id, limit: 100, before, cost: true });
    rows.unshift(...found.executions.reverse());
    before = found.next;
  }
  const costs = rows.map((row) => row.cost).filter(Boolean);
  const sum = (ones, name) => ones.reduce((total, one) => total + (one[name] ?? 0), 0);
  const isPriced = costs.some((cost) => cost.dollars !== null);
  const unpriced = [...new Set(rows.filter((row) => row.cost && row.cost.dollars === null).map((row) => row.model || "programs without a model"))];
  const tokens = (cost) => (cost ? `${rounded(cost.written_tokens)} + ${rounded(cost.read_tokens)}` : "–");
  const price = (cost, name) => (typeof cost?.[name] === "number" ? money(cost[name]) : "–");
  const cell = (text) => h("td", { class: "num" }, text);
  const totals = [plural(rows.length, "program"), plural(sum(rows, "calls"), "call"), `${seconds(sum(rows, "seconds"))} in total`, `${bytes(sum(rows, "saved_bytes"))} kept out of the context`,
    isPriced && `≈ ${money(sum(costs, "dollars"))} for the programs`, isPriced && `≈ ${money(sum(costs, "saved_dollars"))} saved`].filter(Boolean);
  fill(main, h("div", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs"), h("span", { class: "muted" }, "/"), h("h1", {}, `Conversation ${id.slice(0, 60)}`)),
    h("div", { class: "facts" }, totals.map((text) => h("span", {}, h("b", {}, text)))),
    before !== null ? h("div", { class: "note small" }, `Only the latest ${MOST.toLocaleString()} programs are shown.`) : null,
    h("div", { class: "panel" }, rows.length ? h("div", { class: "wide tall", tabindex: "0", role: "region", "aria-label": "Programs" }, h("table", { class: "conversation" },
      h("thead", {}, h("tr", {}, ["Started", "Status", "Program"].map((text) => h("th", {}, text)), ["Calls", "Duration", "Context saved", "Tokens written + read", "Cost", "Saved"].map((text) => h("th", { class: "num" }, text)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("td", {}, moment(row.began_at)), h("td", {}, pill(row)),
        h("td", {}, h("a", { href: `#/runs/${encodeURIComponent(row.execution_id)}` }, row.title || row.first_line || "(empty)"), " ", row.tags.map((tag) => h("span", { class: "tag" }, tag))),
        cell(row.calls.toLocaleString()), cell(seconds(row.seconds)), cell(bytes(row.saved_bytes)), cell(tokens(row.cost)), cell(price(row.cost, "dollars")), cell(price(row.cost, "saved_dollars")))))))
      : h("div", { class: "empty" }, h("b", {}, "No programs of this conversation"), "They may have been forgotten since, or belong to another tenant.")),
    rows.length ? h("p", { class: "muted small" }, "Tokens and costs are estimates of the programs alone: 4 bytes are one token; what the model thinks and reads besides is not counted.",
      unpriced.length ? ` No prices for ${unpriced.slice(0, 5).join(", ")}: name the model of a program, and its prices in toolfold.yaml.` : null) : null);
}
