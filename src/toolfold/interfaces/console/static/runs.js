// All executions, newest first; those that run move by themselves.
import { everything, get } from "./api.js";
import { ago, bytes, copyButton, fill, h, pill, plural, seconds } from "./dom.js";
import { LongList } from "./lists.js";

const FIELDS = ["q", "status", "interface", "tool", "session", "tenant", "tag", "user", "conversation", "model", "since"];
// Filters of a link, such as that of a tag; in the search box they are operators.
const CHIPS = ["tool", "session", "tenant", "tag", "user", "conversation", "model"];
const HINT = "Search everything: words, \"exact words\", tool: status: tenant: since:2d tag: user:";
const SINCE = { hour: 3600, day: 86400, week: 604800 };
// As in models.py.
export const NOTHING_RAN = ["rejected"];

export function lanes(row) {
  const svg = h("svg", { class: "mini", viewBox: "0 0 1000 30", preserveAspectRatio: "none", "aria-hidden": "true" });
  const bar = (x, width, lane, kind) => svg.append(h("rect", { x, width: Math.max(6, width), y: lane * 6, height: 4.6, rx: 1, class: kind }));
  if (row.lanes?.length) { for (const [start, width, lane, failed] of row.lanes) bar(start, width, lane, failed ? "f" : ""); return svg; }
  if (!row.bars) return svg;
  const now = Math.max(row.seconds, 0.001);
  const free = [];
  const place = (start, length, kind) => {
    let lane = free.findIndex((until) => until <= start);
    if (lane < 0) { lane = Math.min(free.length, 4); }
    free[lane] = start + length;
    bar((start / now) * 1000, (length / now) * 1000, lane, kind);
  };
  for (const [start, length, failed] of row.bars) place(start, length, failed ? "f" : "");
  for (const start of row.open.slice(-24)) place(start, now - start, "o");
  for (const start of row.asking.slice(-24)) place(start, now - start, "w");
  return svg;
}

export async function runs(main, { query }) {
  const wanted = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
  const stats = h("div", { class: "stats" });
  const filters = h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() });
  const list = new LongList({ height: 54, className: "list", draw: drawRow, keyOf: (row) => row.execution_id, onEnd: more, label: "Executions" });
  list.element.setAttribute("role", "group");
  const heads = ["Status", "Program", "Calls over time", "Calls", "Duration", "Context saved"].map((text) => h("span", {}, text));
  const body = h("div", { class: "panel", id: "runs" }, h("div", { class: "head" }, heads), list.element);
  fill(main, h("h1", { class: "crumbs" }, "Runs"), stats, filters, body);
  let rows = [];
  let searchesAll = true;
  let shownFirst = "";
  let next = "";
  let isLoading = false;
  let stopped = false;

  const apply = (name, value) => {
    const given = Object.entries({ ...wanted, [name]: value }).filter(([, one]) => one);
    const text = new URLSearchParams(given).toString();
    history.replaceState(null, "", `#/runs${text ? `?${text}` : ""}`);
    wanted[name] = value;
    load();
  };
  let typing = 0;
  const field = (name, placeholder, type = "text") => h("input", {
    type, placeholder, "aria-label": placeholder, value: wanted[name], name,
    oninput: (event) => { clearTimeout(typing); typing = setTimeout(() => apply(name, event.target.value.trim()), 180); },
  });
  const choice = (name, label, options) => {
    const select = h("select", { "aria-label": label, name, onchange: (event) => apply(name, event.target.value) },
      options.map(([value, text]) => h("option", { value, selected: wanted[name] === value }, text)));
    return select;
  };
  const text = field("q", HINT, "search");
  text.setAttribute("aria-label", "Search runs");
  const chips = h("span", { class: "row" });
  const drawChips = () => fill(chips, CHIPS.filter((name) => wanted[name]).map((name) => h("button", { class: "small", type: "button", "aria-label": `Remove the filter ${name} ${wanted[name]}`, onclick: () => { apply(name, ""); drawChips(); } }, `${name}: ${wanted[name]} ✕`)));
  drawChips();
  const note = h("div", { class: "muted small", role: "status", id: "search-note" });
  fill(filters, text,
    choice("status", "Status", [["", "Any status"], ["running", "Running"], ["paused", "Paused"], ["finished", "Finished"], ["failed", "Failed"],
      ["rejected", "Rejected"], ["timeout", "Timeout"], ["limit", "Limit"], ["cancelled", "Cancelled"]]),
    choice("interface", "Interface", [["", "Any interface"], ["cli", "cli"], ["mcp", "mcp"], ["http", "http"], ["library", "library"], ["pydantic_ai", "pydantic_ai"], ["console", "console"]]),
    choice("since", "Time", [["", "Any time"], ["hour", "Last hour"], ["day", "Last day"], ["week", "Last week"]]), chips, note);

  function asked() {
    const { status, since, ...rest } = wanted;
    const isState = status === "running" || status === "paused";
    return { ...rest, state: isState ? status : "", status: isState ? "" : status, since: since ? Date.now() / 1000 - SINCE[since] : "" };
  }

  let turn = 0;
  async function load() {
    isLoading = true;
    turn += 1;
    const own = turn;
    const slow = setTimeout(() => body.setAttribute("aria-busy", "true"), 250);
    let found;
    try {
      found = await get("executions", { ...asked(), limit: 100 });
    } catch (error) {
      if (own === turn && !stopped) { if (error.status === 401) throw error; fill(body, h("div", { class: "empty" }, h("b", {}, "This search did not work"), error.message)); }
      return;
    } finally {
      clearTimeout(slow);
      if (own === turn) { isLoading = false; body.removeAttribute("aria-busy"); }
    }
    if (stopped || own !== turn) return;
    fill(note, found.unindexed ? `${found.unindexed >= 1000 ? "More than 1,000" : found.unindexed} runs are still being indexed; the newest of them are searched, too` : null);
    rows = found.executions;
    next = found.next ?? "";
    isLoading = false;
    if (!rows.length || rows[0]?.execution_id !== shownFirst) list.element.scrollTop = 0;
    shownFirst = rows[0]?.execution_id;
    draw();
  }

  async function more() {
    if (isLoading || !next) return;
    isLoading = true;
    const found = await get("executions", { ...asked(), limit: 200, before: next });
    rows = rows.concat(found.executions);
    next = found.next ?? "";
    isLoading = false;
    draw();
  }

  function draw() {
    body.dataset.count = rows.length;
    list.element.style.setProperty("--rows", `${Math.max(4, rows.length) * 54}px`);
    if (rows.length) { if (!list.element.isConnected) fill(body, h("div", { class: "head" }, heads), list.element); list.show(rows); return; }
    const any = Object.values(wanted).some(Boolean);
    fill(body, any ? h("div", { class: "empty" }, h("b", {}, "Nothing matches"), wanted.q && !searchesAll ? "This ledger searches titles and first lines; see the documentation on the console." : "Remove a filter, or a word.") : firstSteps());
  }

  const figures = async () => {
    const counts = await get("overview");
    if (stopped) return;
    searchesAll = counts.searches_all;
    if (counts.is_sealed) text.placeholder = "Encrypted: tool: status: tenant: since: tag: user: work, words do not";
    else if (!searchesAll) text.placeholder = "Search titles and first lines; tool: status: tenant: since: tag: user:";
    const card = (value, text, href, kind = "") => h("a", { class: `panel stat ${kind}`, href }, h("b", {}, value.toLocaleString()), h("span", {}, text));
    fill(stats, card(counts.running, "running now", "#/runs?status=running"),
      card(counts.waiting, counts.waiting === 1 ? "call needs approval" : "calls need approval", "#/inbox", counts.waiting ? "ask" : ""),
      card(counts.failed, "failed in the last hour", "#/runs?status=failed&since=hour", counts.failed ? "alert" : ""),
      card(counts.recent, "programs in the last hour", "#/runs?since=hour"));
  };

  function matches(row) {
    const { state, status, interface: origin, session, tenant: owner } = asked();
    return (!state || row.state === state) && (!status || row.status === status) && (!origin || row.interface === origin)
      && (!session || row.session === session) && (!owner || row.tenant === owner) && !wanted.tool
      && (!wanted.tag || row.tags.includes(wanted.tag)) && ["user", "conversation", "model"].every((name) => !wanted[name] || row[name] === wanted[name]);
  }

  let refresh = 0;
  let again = 0;
  const news = ({ detail }) => {
    if (detail.all) { load(); figures(); return; }
    for (const row of detail.rows ?? []) {
      const at = rows.findIndex((one) => one.execution_id === row.execution_id);
      if (at >= 0) rows[at] = row;
      else if (wanted.q) { if (!again) again = setTimeout(() => { again = 0; if (!stopped) load(); }, 1500); } else if (matches(row)) rows.unshift(row);
    }
    rows.sort((one, other) => other.began_at - one.began_at);
    draw();
    if (!refresh) refresh = setTimeout(() => { refresh = 0; if (!stopped) figures(); }, 700);
  };
  everything.addEventListener("news", news);
  const ticking = setInterval(() => {
    let moved = false;
    for (const row of rows) if (row.state === "running") { row.seconds = Date.now() / 1000 - row.began_at; moved = true; }
    if (moved) list.schedule();
  }, 500);
  await Promise.all([load(), figures()]);
  return () => { stopped = true; everything.removeEventListener("news", news); clearInterval(ticking); clearTimeout(refresh); clearTimeout(again); };
}

const STEPS = [
  ["Run a program", "echo 'print(6 * 7)' > first.py && toolfold run first.py", "in the folder of your toolfold.yaml, or in any folder if you have none"],
  ["Connect your tools", "toolfold init", "writes a toolfold.yaml with the MCP servers of your other clients"],
  ["Give it to Claude Code", 'claude mcp add toolfold -- "$(command -v toolfold)" mcp', "other clients start the same command"],
];

function firstSteps() {
  return h("div", { class: "empty first" }, h("b", {}, "No runs yet"), h("div", {}, "Every program appears here at once, from every interface that shares this console's ledger. To see one:"),
    h("ol", {}, STEPS.map(([title, command, about]) => h("li", {}, h("div", {}, h("strong", {}, title), h("span", { class: "muted" }, `: ${about}`)), h("div", { class: "row" }, h("code", {}, command), copyButton("Copy", command, "the command"))))));
}

function drawRow(row) {
  const saved = row.state !== "ended" || !row.saved_bytes ? h("span", { class: "muted" }, "–")
    : h("span", { class: row.saved_bytes > 0 ? "gain" : "loss" }, bytes(row.saved_bytes));
  const named = [row.title && row.first_line, ...(row.tags ?? []).map((tag) => `#${tag}`), row.user, row.model, row.conversation && `conversation ${row.conversation.slice(0, 24)}`];
  const sub = [row.interface || "–", ago(row.began_at), row.session && `session ${row.session}`, row.tenant && `tenant ${row.tenant}`, ...named];
  return h("a", { class: "run", href: `#/runs/${encodeURIComponent(row.execution_id)}` },
    pill(row),
    h("div", { class: "line" }, h("div", { class: row.title ? "line" : "mono line" }, row.title ? h("b", {}, row.title) : row.first_line || "(empty)"), h("div", { class: "sub" }, sub.filter(Boolean).join(" · "))),
    lanes(row),
    h("span", { class: "num" }, row.calls.toLocaleString(), row.failed ? h("span", { class: "loss", title: plural(row.failed, "failed call") }, ` ${row.failed}✕`) : null),
    h("span", { class: "num" }, NOTHING_RAN.includes(row.status) ? "–" : seconds(row.seconds)), h("span", { class: "num" }, saved));
}
