// One run: the program's own lines with the calls each made, the waterfall, the selected call, the output.
import { follow, get, post } from "./api.js";
import { CallList, callAddress, drawCall } from "./calls.js";
import { breathe, bytes, copyButton, fill, h, keepFocus, moment, money, pill, plural, rounded, seconds, toast } from "./dom.js";
import { files } from "./files.js";
import { lines } from "./highlight.js";
import { value } from "./values.js";
import { NOTHING_RAN } from "./runs.js";
import { Waterfall } from "./waterfall.js";

const PART = 4000;

// What the events of a run add up to.
export class Story {
  constructor(execution) {
    this.calls = [];
    this.byId = new Map();
    this.printed = [];
    this.marks = [];
    this.end = 0;
  }

  // Of a long one: a part, then a breath, so that no task is long.
  static async of(execution) {
    const story = new Story(execution);
    for (let at = 0; at < execution.events.length; at += PART) {
      await breathe();
      story.take(execution.events.slice(at, at + PART));
    }
    return story;
  }

  call(event) {
    let call = this.byId.get(event.id);
    if (!call) {
      call = { id: event.id, tool: event.tool, line: event.line, within: event.within, at: event.at || this.end, seconds: null, error: null, preview: event.preview };
      this.byId.set(event.id, call);
      if (this.calls.length && this.calls[this.calls.length - 1].id > call.id) {
        this.calls.push(call);
        this.calls.sort((one, other) => one.id - other.id);
      } else this.calls.push(call);
    }
    return call;
  }

  take(events) {
    for (const event of events) {
      if (event.type === "called") {
        const call = this.call(event);
        if (event.at && call.asking === undefined) call.at = event.at;
        else if (event.at) call.decidedAt = event.at;
      }
      else if (event.type === "replied") Object.assign(this.call(event), event, { asking: false });
      else if (event.type === "asked") Object.assign(this.call(event), { asking: true, askedAt: event.at, expires: event.expires });
      else if (event.type === "retried") { const call = this.byId.get(event.id); if (call) (call.retries ??= []).push(event); }
      else if (event.type === "decided") { const call = this.byId.get(event.id); if (call) { call.asking = false; call.decided = event; } }
      else if (event.type === "printed") this.printed.push(event);
      else if (event.type === "paused") this.marks.push([event.at, null]);
      else if (event.type === "resumed") { const last = this.marks[this.marks.length - 1]; if (last) last[1] = event.at; }
      const until = (event.at ?? 0) + (event.seconds ?? 0);
      if (until > this.end) this.end = until;
    }
  }
}

export async function run(main, { id, item, isCurrent }) {
  const execution = await get(`executions/${encodeURIComponent(id)}`);
  const story = await Story.of(execution);
  if (!isCurrent()) return () => {};
  let selected = 0;
  let stopped = false;

  const crumbs = h("div", { class: "crumbs" });
  const facts = h("div", { class: "facts" });
  const problem = h("div", {});
  const output = h("pre", { class: "out body", tabindex: "0", role: "region", "aria-label": "Output" });
  const detail = h("div", { class: "panel", id: "call", "aria-live": "polite" });
  const saved = h("div", { class: "stack" });
  const fall = new Waterfall((call) => select(call));
  const list = new CallList({ onSelect: (call) => select(call), isOver: () => execution.state === "ended", depth: (call) => depth(call) });
  const count = h("span", { class: "muted small num", id: "count" });
  const sources = lines(execution.program.replace(/\n$/, ""), [...execution.tools, ...execution.missing_tools], execution.language);
  const rows = sources.map((parts, at) => h("div", { class: "ln", id: `line-${at + 1}` }, h("span", { class: "no" }, String(at + 1)), h("span", { class: "src" }, parts), h("span", {})));
  const legend = h("span", { class: "legend" }, [["--run", "in flight"], ["--bad", "failed"], ["--warn", "needs approval"], ["--faint", "from the record"], ["", "no reply"]]
    .map(([color, text]) => h("span", {}, h("i", color ? { style: { background: `var(${color})` } } : { class: "hollow" }), text)));

  const overTime = h("div", { class: "panel" }, h("header", {}, h("h2", {}, "Calls over time"), count, h("span", { class: "grow" }), legend, fall.buttons), fall.legend, fall.element);
  fall.onPick = (tools) => list.pick(tools);
  const printed = h("div", { class: "panel" }, h("header", {}, h("h2", {}, "Output")), output);
  const aside = h("div", { class: "stack" }, detail, list.element);
  const split = h("div", { class: "split" },
    h("div", { class: "stack" },
      h("div", { class: "panel" }, h("header", {}, h("h2", {}, "Program"), h("span", { class: "muted small" }, `${execution.language === "bash" ? "bash, " : ""}${plural(rows.length, "line")}`), h("span", { class: "grow" }), copyButton("Copy", execution.program, "the program")), h("div", { class: "code-view", tabindex: "0", role: "region", "aria-label": "Program" }, rows)), printed, saved), aside);
  fill(main, crumbs, facts, problem, overTime, split);

  // What a run does not have is not shown empty: of a rejected one there is the program and its problem.
  function hideEmpty() {
    const nothingRan = NOTHING_RAN.includes(execution.outcome?.status);
    const noCalls = execution.state === "ended" && !story.calls.length;
    for (const part of [overTime, list.element]) part.hidden = noCalls;
    detail.hidden = noCalls && !item;
    for (const part of [printed, saved]) part.hidden = nothingRan;
    aside.hidden = noCalls && detail.hidden;
    split.classList.toggle("single", aside.hidden);
  }

  async function cancel() {
    try { await post(`executions/${encodeURIComponent(id)}/cancel`, {}); toast("Cancelled"); } catch (error) { toast(error.message); }
  }

  const status = () => execution.outcome?.status ?? "";

  function head() {
    const missing = execution.missing_tools.length;
    const why = !execution.may_act ? "This console is read-only, or your key may not run programs" : execution.state !== "ended" ? "It has not ended yet" : missing ? `This console does not have ${execution.missing_tools.slice(0, 3).join(", ")}: start it with the program's own config` : "Edit the program and run it again; recorded calls are not repeated";
    const asking = story.calls.filter((call) => call.asking).length;
    fill(crumbs, h("a", { href: "#/runs" }, "Runs"), h("span", { class: "muted" }, "/"), execution.title ? [h("h1", {}, execution.title), h("span", { class: "mono muted small" }, id)] : h("h1", { class: "mono" }, id), pill({ ...execution, status: status(), waiting: asking && !status() ? asking : 0 }),
      copyButton("Copy id", id, "the id"), ["html", "json"].map((kind) => h("a", { class: "small", href: `api/executions/${encodeURIComponent(id)}/download?format=${kind}`, download: "" }, `Download ${kind.toUpperCase()}`)), h("span", { class: "grow" }),
      asking && !status() ? h("a", { href: "#/inbox" }, `${plural(asking, "call")} in the inbox`) : null,
      execution.state !== "ended" && execution.may_act ? h("button", { class: "bad", type: "button", onclick: cancel }, "Cancel") : null,
      status() === "finished" && execution.may_act && !execution.is_direct && execution.language !== "bash" && story.calls.length ? h("button", { type: "button", id: "save", onclick: () => { location.hash = `#/runs/${encodeURIComponent(id)}/save`; } }, "Save as a tool") : null,
      h("button", { class: "main", type: "button", id: "rerun", disabled: missing || !execution.may_act || execution.state !== "ended", title: why, onclick: () => { location.hash = `#/runs/${encodeURIComponent(id)}/rerun`; } }, "Rerun with a fix"));
    const fact = (name, text) => (text ? h("span", {}, `${name} `, h("b", {}, text)) : null);
    const spent = execution.outcome?.seconds ?? Date.now() / 1000 - execution.began_at;
    fill(facts, fact("started", moment(execution.began_at)), fact(execution.outcome ? "took" : "running for", seconds(spent)), fact("interface", execution.interface), fact("engine", execution.engine && `${execution.engine} (${execution.isolation})`),
      fact("session", execution.session), fact("tenant", execution.tenant), fact("user", execution.user), fact("model", execution.model),
      execution.conversation ? h("span", {}, "conversation ", h("a", { href: `#/conversations/${encodeURIComponent(execution.conversation)}` }, execution.conversation.slice(0, 24))) : null,
      execution.tags.map((tag) => h("a", { class: "tag", href: `#/runs?tag=${encodeURIComponent(tag)}` }, tag)), execution.is_direct ? fact("", "a direct call, shown as a program") : null,
      execution.rerun_of ? h("span", {}, "rerun of ", h("a", { class: "mono", href: `#/runs/${encodeURIComponent(execution.rerun_of)}` }, execution.rerun_of.slice(0, 12)), " · ", h("a", { href: `#/runs/${encodeURIComponent(id)}/compare` }, "compare")) : null,
      missing ? h("span", {}, `cannot be rerun here: no ${execution.missing_tools.slice(0, 3).join(", ")}`) : null);
    const fault = execution.outcome?.problem;
    fill(problem, fault ? h("div", { class: "problem" }, fault.line ? h("a", { href: `#line-${fault.line}`, onclick: (event) => { event.preventDefault(); rows[fault.line - 1]?.scrollIntoView({ block: "center" }); } }, `line ${fault.line}`) : null, fault.line ? ": " : null, fault.message) : null,
      NOTHING_RAN.includes(status()) ? h("div", { class: "note small" }, "Nothing ran: the check found this before the program started, and no tool was called.") : null,
      (execution.outcome?.unmade_calls ?? []).map((call) => h("div", { class: "problem" }, `not made: ${call} was never awaited`)),
      (execution.outcome?.hints ?? []).map((hint) => h("div", { class: "note small" }, hint)));
  }

  function program() {
    const byLine = new Map();
    for (const call of story.calls.filter((one) => !one.within)) { if (!byLine.has(call.line)) byLine.set(call.line, []); byLine.get(call.line).push(call); }
    const fault = execution.outcome?.problem?.line;
    rows.forEach((row, at) => {
      const own = byLine.get(at + 1);
      row.classList.toggle("bad", fault === at + 1);
      if (!own) return;
      const failed = own.filter((call) => call.error).length;
      const open = own.filter((call) => call.seconds === null).length;
      const asking = own.filter((call) => call.asking).length;
      const took = own.reduce((sum, call) => sum + (call.seconds ?? 0), 0);
      const text = [plural(own.length, "call"), open < own.length && seconds(took), failed && `${failed} failed`, asking ? `${asking} waiting` : open && execution.state !== "ended" && `${open} in flight`].filter(Boolean).join(" · ");
      const kind = failed ? "f" : asking ? "w" : open && execution.state !== "ended" ? "o" : "";
      if (row.lastChild.textContent === text) return;
      keepFocus(row, () => row.lastChild.replaceWith(h("button", { class: `calls ${kind}`, id: `calls-${at + 1}`, type: "button", onclick: () => select(own.find((call) => call.error)?.id ?? own[0].id) }, text)));
    });
  }

  function drawOutput() {
    const outcome = execution.outcome;
    const parts = outcome ? [["stdout", outcome.stdout], ["stderr", outcome.stderr]] : story.printed.map((part) => [part.stream, part.text]);
    const shown = parts.filter(([, text]) => text).map(([stream, text]) => h("span", { class: stream === "stderr" ? "err" : "" }, text));
    const atEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 30;
    fill(output, shown.length ? shown : h("span", { class: "muted" }, outcome ? "No output" : "No output yet"));
    if (atEnd && !outcome) output.scrollTop = output.scrollHeight;
  }

  function drawSaved() {
    const outcome = execution.outcome;
    if (!outcome) { fill(saved, files(id, "Input files", execution.files)); return; }
    const { context_saved: kept } = outcome;
    // As `toolfold.execution.outcome` counts: a program that did not finish has replaced nothing.
    const sent = outcome.status !== "finished" ? 0 : story.calls.reduce((sum, call) => sum + call.tool.length + (call.bytes_in ?? 0) + (call.bytes_out ?? 0), 0);
    const size = new TextEncoder().encode(JSON.stringify({ code: execution.program })).length + "execute_program".length;
    const printed = sent - size - kept.bytes;
    const pair = (name, text) => [h("dt", {}, name), h("dd", {}, text)];
    fill(saved,
      outcome.value ? h("div", { class: "panel" }, h("header", {}, h("h2", {}, "Value")), h("div", { class: "body" }, value(outcome.value))) : null,
      files(id, "Output files", outcome.files), files(id, "Input files", execution.files),
      h("div", { class: "panel" }, h("header", {}, h("h2", {}, kept.bytes < 0 ? "Lost" : "Context saved"), h("span", { class: "grow" }), h("b", { class: "num" }, `${bytes(kept.bytes)} ≈ ${rounded(kept.tokens)} tokens`)),
        h("div", { class: "body" }, h("dl", { class: "kv" }, pair(outcome.status === "finished" ? "calls and replies" : "calls and replies (not counted: the program did not finish)", bytes(sent)), pair("less the program", bytes(-size)), pair("less what the model was shown", bytes(-printed)),
          typeof execution.cost?.dollars === "number" ? [pair("estimated cost of the program", money(execution.cost.dollars)), pair(execution.cost.saved_dollars < 0 ? "direct calls: cheaper by" : "direct calls: dearer by", money(Math.abs(execution.cost.saved_dollars)))] : null))),
      h("div", { class: "panel" }, h("header", {}, h("h2", {}, "Limits")), h("div", { class: "body" },
        used("Calls", story.calls.length, execution.limits.calls, (one) => one.toLocaleString()), used("Time", outcome.seconds, execution.limits.wall_seconds, seconds),
        used("Output", new TextEncoder().encode(outcome.stdout + outcome.stderr).length, execution.limits.output_bytes, bytes))));
  }

  function used(name, amount, limit, text) {
    return h("div", { class: "used" }, h("span", { class: "muted" }, name), h("meter", { min: 0, max: limit, value: Math.min(amount, limit), "aria-label": name }), h("span", { class: "num" }, `${text(amount)} of ${text(limit)}`));
  }

  // Calls of a saved program have lines of its own text: the program's line is that of the call around them.
  const around = (call) => story.byId.get(call.within);
  const depth = (call) => (around(call) ? 1 + depth(around(call)) : 0);
  const outermost = (call) => (around(call) ? outermost(around(call)) : call);

  // Who picks a call gets its address; the call that is shown first has none.
  async function select(call, isPicked = true) {
    if (isPicked) history.replaceState(null, "", callAddress(id, call));
    selected = call;
    fall.select(call);
    const known = story.byId.get(call);
    const top = known && outermost(known);
    rows.forEach((row, at) => row.classList.toggle("hit", at + 1 === top?.line));
    list.select(call);
    let found;
    try {
      found = await get(`executions/${encodeURIComponent(id)}/calls/${call}`);
    } catch (error) {
      if (selected === call && !stopped) fill(detail, h("div", { class: "empty" }, h("b", {}, error.status === 404 ? `This run has no call ${call}` : "This call cannot be shown"), error.status === 404 ? "Pick one in the list of calls." : error.message));
      return;
    }
    if (selected !== call || stopped) return;
    detail.dataset.call = call;
    drawCall(detail, execution, found, known);
  }

  let frame = 0;
  function draw() {
    frame = 0;
    if (stopped) return;
    const isOver = execution.state === "ended";
    const now = isOver ? Math.max(story.end, execution.outcome?.seconds ?? 0) : Math.max(story.end, Date.now() / 1000 - execution.began_at);
    const open = story.calls.filter((call) => call.seconds === null).length;
    const asking = story.calls.filter((call) => call.asking).length;
    const moving = [asking && `${asking} waiting`, open - asking && `${open - asking} in flight`].filter(Boolean);
    count.textContent = [plural(story.calls.length, "call"), ...(isOver ? [] : moving)].join(", ");
    fall.isOver = isOver;
    fall.show(story.calls, now, story.marks);
    count.textContent += story.calls.length ? ` · ${plural(fall.lanes, "lane")}` : "";
    list.show(story.calls);
    hideEmpty();
    program();
    drawOutput();
    head();
  }
  const schedule = () => { if (!frame) frame = requestAnimationFrame(draw); };

  draw();
  drawSaved();
  const first = () => (story.calls.find((call) => call.asking || call.error) ?? story.calls[0]).id;
  if (/^[0-9]{1,9}$/.test(item ?? "")) { select(Number(item), false); detail.scrollIntoView({ block: "nearest" }); }
  else if (story.calls.length) select(first(), false);
  else fill(detail, h("div", { class: "empty" }, "No calls yet"));
  let leaveStream = () => {};
  let ticking = 0;
  if (execution.state !== "ended") {
    leaveStream = follow(id, execution.place, (message) => {
      story.take(message.events);
      execution.state = message.state;
      if (message.outcome) { execution.outcome = message.outcome; drawSaved(); clearInterval(ticking); }
      if (!selected && story.calls.length) select(story.calls[0].id, false);
      else if (message.events.some((event) => event.id === selected)) select(selected, false);
      schedule();
    });
    ticking = setInterval(schedule, 250);
  }
  return () => { stopped = true; leaveStream(); clearInterval(ticking); fall.close(); list.close(); };
}
