// Every call that waits for a person, grouped by tool; what differs in the arguments is what is shown first.
import { everything, get, post } from "./api.js";
import { fill, h, plural, toast, waiting } from "./dom.js";
import { read, write } from "./json.js";
import { value } from "./values.js";

const MOST_COLUMNS = 6;
const MOST_SIGNS = 200;

const shown = (one) => (one === undefined ? "" : typeof one === "string" ? one : write(one));

const cut = (one) => { const text = shown(one); return text.length > MOST_SIGNS ? `${text.slice(0, MOST_SIGNS)}…` : text; };

export async function inbox(main) {
  let asked = [];
  let mayAct = true;
  let selected = "";
  let stopped = false;
  let isBusy = false;
  const key = (one) => `${one.execution_id}/${one.epoch}/${one.call_id}`;
  const place = h("div", { id: "inbox" });
  const word = (text, means) => h("span", {}, h("kbd", {}, text), ` ${means}`);
  fill(main, h("h1", { class: "crumbs" }, "Inbox"),
    h("div", { class: "keys" }, word("j", "down"), word("k", "up"), word("a", "approve"), word("d", "deny"), word("e", "edit"), word("t", "approve this tool for the rest of its program"), word("Shift A", "approve the calls of the group that are shown in full")), place);

  const load = async () => {
    const found = await get("approvals");
    if (stopped) return;
    asked = found.approvals;
    mayAct = found.may_act;
    draw();
  };

  async function decide(which, how) {
    if (!which.length || isBusy) return;
    isBusy = true;
    const at = order().findIndex((one) => key(one) === selected);
    try {
      const decisions = which.map(({ execution_id, epoch, call_id, digest }) => ({ execution_id, epoch, call_id, digest, ...how }));
      const { results } = await post("approvals", { decisions });
      const lost = results.filter((one) => !one.counts);
      toast(lost.length ? `${lost.length} not decided: ${lost[0].why}` : `${plural(results.length, "call")} ${how.approved ? "approved" : "denied"}`);
      const gone = new Set(which.map(key));
      asked = asked.filter((one) => !gone.has(key(one)));
      selected = key(order()[Math.min(Math.max(at, 0), order().length - 1)] ?? { execution_id: "" });
      draw();
    } catch (error) { toast(error.message); }
    isBusy = false;
  }

  function ask(title, label, start, isCode, then) {
    const field = isCode ? h("textarea", { class: "code", rows: "8", "aria-label": label, value: start, spellcheck: "false" }) : h("input", { "aria-label": label, placeholder: label, value: start });
    const box = h("dialog", { "aria-label": title });
    const done = () => { if (then(field.value) !== false) box.close(); };
    const form = h("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); done(); } }, h("h2", {}, title), field,
      h("div", { class: "row" }, h("button", { type: "button", onclick: () => box.close() }, "Cancel"), h("button", { class: "main", type: "submit" }, "Send")));
    field.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); done(); } });
    box.append(form);
    box.addEventListener("close", () => box.remove());
    document.body.append(box);
    box.showModal();
    field.focus();
  }

  const deny = (which) => ask(which.length > 1 ? `Deny ${which.length} calls` : `Deny ${which[0].tool}`, "Reason (the program can read it)", "", false, (reason) => { decide(which, { approved: false, reason }); });
  const edit = (one) => ask(`Edit the arguments of ${one.tool}`, "Arguments as JSON", write(one.arguments?.json ?? {}, 2), true, (text) => {
    try {
      const changed = read(text);
      if (!changed || typeof changed !== "object" || Array.isArray(changed)) throw new Error("enter a JSON object");
      decide([one], { approved: true, arguments: changed });
      return true;
    } catch (error) { toast(`Not sent: ${error.message}`); return false; }
  });

  function groups() {
    const by = new Map();
    for (const one of asked) { if (!by.has(one.tool)) by.set(one.tool, []); by.get(one.tool).push(one); }
    return [...by.entries()];
  }
  const order = () => groups().flatMap(([, ones]) => ones);

  // Of a group: the arguments that are equal in all its calls, those that differ, and the calls of which nothing is cut off.
  function parts(ones) {
    const all = ones.map((one) => one.arguments?.json ?? {});
    const names = [...new Set(all.flatMap(Object.keys))];
    const same = names.filter((name) => ones.length > 1 && all.every((one) => write(one[name]) === write(all[0][name])));
    const differing = names.filter((name) => !same.includes(name));
    const fits = (args, which) => which.every((name) => shown(args[name]).length <= MOST_SIGNS);
    const isWhole = (one, at) => one.arguments?.head === undefined && differing.length <= MOST_COLUMNS && fits(all[at], names);
    return { same, differing: differing.slice(0, MOST_COLUMNS), first: all[0], whole: ones.filter(isWhole) };
  }

  function draw() {
    if (!asked.length) {
      fill(place, h("div", { class: "panel empty" }, h("b", {}, "No pending approvals"), "Calls that need approval appear here at once, from every interface, if the config sets approvals to console or both."));
      return;
    }
    if (!order().some((one) => key(one) === selected)) selected = key(order()[0]);
    fill(place, groups().map(([tool, ones]) => {
      const { same, differing, first, whole: readable } = parts(ones);
      const isCut = readable.length < ones.length;
      const why = isCut ? "The arguments of the other calls are cut off here; select each call to read them before you decide" : null;
      return h("section", { class: "panel group", "data-tool": tool }, h("header", {}, h("h2", { class: "mono" }, tool), h("span", { class: "pill waiting" }, `${ones.length} waiting`),
        same.map((name) => h("span", { class: "tag long" }, h("bdi", {}, name), " = ", h("bdi", {}, cut(first[name])))), h("span", { class: "grow" }),
        h("span", { class: "row" },
          h("button", { class: "good small", type: "button", id: `approve-${tool}`, title: why, disabled: !mayAct || !readable.length, onclick: () => decide(readable, { approved: true }) }, isCut && readable.length ? `Approve ${readable.length} of ${ones.length}` : `Approve all ${ones.length}`),
          h("button", { class: "bad small", type: "button", disabled: !mayAct, onclick: () => deny(ones) }, "Deny all"))),
      h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Run"), h("th", {}, "Line"), differing.map((name) => h("th", {}, name)), h("th", {}, "Decision"))),
        h("tbody", {}, ones.map((one) => [row(one, differing, readable.includes(one)), key(one) === selected ? whole(one, differing.length + 3) : null])))));
    }));
    place.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }

  function row(one, differing, isReadable) {
    const args = one.arguments?.json ?? {};
    const button = (text, kind, act) => h("button", { class: `small ${kind}`, type: "button", disabled: !mayAct, onclick: act }, text);
    return h("tr", { class: "ask-row", "data-key": key(one), "aria-selected": String(key(one) === selected), onclick: () => { if (selected !== key(one)) { selected = key(one); draw(); } } },
      h("td", {}, h("a", { class: "mono", href: `#/runs/${encodeURIComponent(one.execution_id)}` }, one.execution_id.slice(0, 8)), h("div", { class: "muted" }, one.interface || "–"), waiting(one.began_at + one.at, one.expires && one.began_at + one.expires)),
      h("td", {}, h("span", { class: "muted num" }, one.line ? `${one.line} ` : ""), h("span", { class: "mono" }, one.program_line)),
      one.arguments?.head !== undefined ? h("td", {}, value(one.arguments)) : differing.map((name) => h("td", { class: "mono", "data-name": name }, cut(args[name]))),
      h("td", { class: "act" }, isReadable || key(one) === selected ? button("Approve", "good", () => decide([one], { approved: true })) : button("Read", "", () => { selected = key(one); draw(); }), " ", button("Edit", "", () => edit(one)), " ", button("Deny", "bad", () => deny([one]))));
  }

  // Everything that is approved is in sight: the cells above it are cut.
  function whole(one, width) {
    const rest = () => decide([one], { approved: true, covers: "tool" });
    return h("tr", { class: "ask-whole", "data-key": `whole ${key(one)}` }, h("td", { colspan: width }, h("div", { class: "row" }, h("span", { class: "muted small" }, "All arguments"), h("span", { class: "grow" }),
      h("button", { class: "small", type: "button", disabled: !mayAct, onclick: rest }, `Approve ${one.tool} for the rest of this program`)), value(one.arguments, true)));
  }

  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
    const all = order();
    const at = all.findIndex((one) => key(one) === selected);
    const one = all[at];
    const go = (to) => { selected = key(all[Math.min(all.length - 1, Math.max(0, to))]); draw(); };
    const acts = {
      j: () => go(at + 1), ArrowDown: () => go(at + 1), k: () => go(at - 1), ArrowUp: () => go(at - 1), a: () => decide([one], { approved: true }), d: () => deny([one]), e: () => edit(one),
      t: () => decide([one], { approved: true, covers: "tool" }), A: () => decide(parts(all.filter((other) => other.tool === one.tool)).whole, { approved: true }),
    };
    if (one && acts[event.key] && (mayAct || "jk".includes(event.key))) { event.preventDefault(); acts[event.key](); }
  };
  let timer = 0;
  const news = () => { if (!timer) timer = setTimeout(() => { timer = 0; if (!isBusy) load(); }, 120); };
  document.addEventListener("keydown", press);
  everything.addEventListener("news", news);
  await load();
  return () => { stopped = true; document.removeEventListener("keydown", press); everything.removeEventListener("news", news); clearTimeout(timer); };
}
