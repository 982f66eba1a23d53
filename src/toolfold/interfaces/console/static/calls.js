// The calls of one run: a list that is filtered, sorted and walked through with the keyboard, and one call with what to copy.
import { bytes, copyButton, fill, h, seconds, toast, waiting } from "./dom.js";
import { write } from "./json.js";
import { LongList } from "./lists.js";
import { value } from "./values.js";

const ORDERS = {
  order: ["In order", null],
  slowest: ["Slowest first", (one, other) => (other.seconds ?? -1) - (one.seconds ?? -1)],
  largest: ["Largest reply first", (one, other) => (other.bytes_out ?? -1) - (one.bytes_out ?? -1)],
  failed: ["Failed first", (one, other) => Number(Boolean(other.error)) - Number(Boolean(one.error))],
};

export const callAddress = (id, call) => `#/runs/${encodeURIComponent(id)}/calls/${call}`;

export class CallList {
  // `isOver` says whether the run has ended, `depth` in how many others a call is; `onSelect` is told the id of a call.
  constructor({ onSelect, isOver, depth }) {
    Object.assign(this, { onSelect, isOver, depth });
    this.all = [];
    this.shown = [];
    this.selected = 0;
    this.words = "";
    this.tools = new Set();
    this.order = "order";
    this.list = new LongList({ height: 42, most: 336, className: "calls-list", draw: (call) => this.row(call), keyOf: (call) => call.id, label: "Calls" });
    this.list.element.setAttribute("role", "listbox");
    const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter calls", oninput: (event) => { this.words = event.target.value.trim().toLowerCase(); this.again(); } });
    const order = h("select", { "aria-label": "Order of calls", onchange: (event) => { this.order = event.target.value; this.again(); } }, Object.entries(ORDERS).map(([name, [text]]) => h("option", { value: name }, text)));
    this.count = h("span", { class: "muted small num", role: "status" });
    this.failed = h("button", { class: "small", type: "button", title: "Key n", onclick: () => this.nextFailed() }, "Next failed");
    this.element = h("div", { class: "panel", id: "calls" }, h("header", {}, h("h2", {}, "All calls"), this.count, h("span", { class: "grow" }), filter, order, this.failed), this.list.element);
    this.press = (event) => this.key(event);
    document.addEventListener("keydown", this.press);
  }

  close() { document.removeEventListener("keydown", this.press); }

  pick(tools) { this.tools = tools; this.again(); }

  again() { this.list.element.scrollTop = 0; this.show(this.all); }

  show(calls) {
    this.all = calls;
    const has = (call) => `#${call.id} ${call.tool} ${call.preview ?? ""} ${call.error ?? ""} line ${call.line}`.toLowerCase().includes(this.words);
    const isFiltered = this.words || this.tools.size;
    const kept = isFiltered ? calls.filter((call) => has(call) && (!this.tools.size || this.tools.has(call.tool))) : calls;
    const compare = ORDERS[this.order][1];
    this.shown = compare ? [...kept].sort((one, other) => compare(one, other) || one.id - other.id) : kept;
    this.count.textContent = isFiltered ? `${this.shown.length.toLocaleString()} of ${calls.length.toLocaleString()}` : "";
    this.failed.disabled = !calls.some((call) => call.error);
    this.list.element.dataset.count = this.shown.length;
    this.list.show(this.shown);
  }

  select(call) {
    this.selected = call;
    const at = this.shown.findIndex((one) => one.id === call);
    if (at >= 0) this.list.reveal(at);
    this.list.schedule();
  }

  step(by, hasFocus = false) {
    const at = this.shown.findIndex((one) => one.id === this.selected);
    const to = this.shown[at < 0 ? 0 : at + by];
    if (!to) return;
    this.onSelect(to.id);
    if (hasFocus) requestAnimationFrame(() => this.list.space.querySelector(`[data-key="${to.id}"]`)?.focus());
  }

  nextFailed() {
    const at = this.shown.findIndex((one) => one.id === this.selected);
    const to = [...this.shown.slice(at + 1), ...this.shown.slice(0, at + 1)].find((call) => call.error);
    if (to) this.onSelect(to.id); else toast("No failed call in this list");
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
    const act = { j: () => this.step(1), k: () => this.step(-1), n: () => this.nextFailed() }[event.key];
    if (act) { event.preventDefault(); act(); }
  }

  row(call) {
    const arrows = (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (by) { event.preventDefault(); this.step(by, true); }
    };
    const took = call.asking ? "waiting" : call.seconds === null ? (this.isOver() ? "no reply" : "…") : seconds(call.seconds);
    return h("button", { class: `call ${call.error ? "f" : ""} ${call.from_record ? "r" : ""}`, type: "button", role: "option", "aria-selected": String(call.id === this.selected), onclick: () => this.onSelect(call.id), onkeydown: arrows },
      h("span", { class: "muted num" }, `#${call.id}`),
      h("span", { class: "what" }, h("span", { class: "name", title: call.within ? `within call ${call.within}` : null }, "  ↳ ".repeat(this.depth(call)), call.tool, call.from_record ? h("span", { class: "muted" }, "  from the record") : null), h("span", { class: "sub mono" }, call.error || call.preview || "")),
      h("span", { class: "muted num" }, call.line ? `line ${call.line}` : ""), h("span", { class: "num" }, took), h("span", { class: "muted num" }, call.bytes_out !== undefined ? bytes(call.bytes_out) : ""));
  }
}

// `call` as the API has it, `known` what the events say of it.
export function drawCall(place, { execution_id: id, began_at: began }, call, known) {
  const { decided, asking, askedAt, expires } = known ?? {};
  const notes = [call.from_record && "from the record", call.cached && "cached", call.attempts > 1 && `${call.attempts} attempts`, call.edited && "arguments were edited", call.lost && "too large for the ledger"].filter(Boolean);
  const used = call.used_arguments ?? call.arguments;
  const part = (title, ...body) => h("div", {}, h("div", { class: "muted small" }, title), body);
  fill(place, h("header", {}, h("span", { class: "muted num" }, `#${call.id}`), h("h2", { class: "mono" }, call.tool), h("span", { class: "grow" }),
    notes.map((note) => h("span", { class: "tag" }, note)), h("span", { class: "num small" }, call.seconds === undefined ? "no reply yet" : seconds(call.seconds))),
  h("div", { class: "body stack" },
    h("div", { class: "row copies" }, copyButton("Copy link", () => new URL(callAddress(id, call.id), location.href).href, "the link"),
      used?.json === undefined ? null : [copyButton("Copy arguments", () => write(used.json, 2), "the arguments"), copyButton("Copy as Python", () => python(call.python_name, used.json), "the call")],
      call.error || call.reply?.json === undefined ? null : copyButton("Copy reply", () => write(call.reply.json, 2), "the reply"),
      call.error ? copyButton("Copy error", call.error, "the error") : null),
    call.hidden ? h("div", { class: "muted" }, "Arguments and replies are hidden by the config.") : null,
    asking ? part("Approval", waiting(began + askedAt, expires && began + expires), " · ", h("a", { href: "#/inbox" }, "decide in the inbox")) : null,
    decided ? part("Approval", h("span", { class: decided.approved ? "approved" : "denied" }, [decided.approved ? "approved" : "denied", decided.by && ` by ${decided.by}`, decided.under ? ` with call #${decided.under}` : null, !decided.under && known.decidedAt > askedAt && ` after ${seconds(known.decidedAt - askedAt)}`, decided.reason && `: ${decided.reason}`])) : null,
    part("Arguments", value(used)),
    call.used_arguments ? part("As the program wrote them", value(call.arguments)) : null,
    (known?.retries ?? []).map((one) => part(`Attempt ${one.attempt} at ${seconds(one.at)}, after`, h("pre", { class: "problem" }, one.error))),
    call.error ? part("Error", h("pre", { class: "problem" }, call.error)) : call.seconds !== undefined ? part(`Reply, ${bytes(call.bytes_out)}`, value(call.reply)) : null));
}

const KEYWORDS = new Set("False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield".split(" "));

// The call as a program writes it; keys that cannot be names of arguments stand in `**{}`.
export function python(name, json) {
  const entries = Object.entries(json);
  const isName = ([key]) => /^[A-Za-z_]\w*$/.test(key) && !KEYWORDS.has(key);
  const others = entries.filter((entry) => !isName(entry));
  const parts = entries.filter(isName).map(([key, one]) => `${key}=${literal(one)}`);
  if (others.length) parts.push(`**${literal(Object.fromEntries(others))}`);
  return `await ${name}(${parts.join(", ")})`;
}

function literal(one) {
  if (one === null) return "None";
  if (typeof one === "boolean") return one ? "True" : "False";
  if (Array.isArray(one)) return `[${one.map(literal).join(", ")}]`;
  if (typeof one === "object") return `{${Object.entries(one).map(([key, item]) => `${write(key)}: ${literal(item)}`).join(", ")}}`;
  return typeof one === "string" ? write(one) : String(one);
}
