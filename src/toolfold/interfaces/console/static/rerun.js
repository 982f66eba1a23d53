// A corrected program beside the record of the earlier one; the check reads along.
import { get, post } from "./api.js";
import { fill, h, toast, visible } from "./dom.js";

export async function rerun(main, { id }) {
  const execution = await get(`executions/${encodeURIComponent(id)}`);
  const gutter = h("div", { class: "gutter", "aria-hidden": "true" });
  const text = h("textarea", { class: "code", spellcheck: "false", "aria-label": "Program", value: execution.program, autocapitalize: "off", autocomplete: "off" });
  const says = h("div", { class: "small", id: "check", role: "status" }, "…");
  const go = h("button", { class: "main", type: "button", id: "go" }, "Run it");
  const count = execution.events.filter((event) => event.type === "replied" && !event.error).length;
  const isBash = execution.language === "bash";
  let bad = execution.outcome?.problem?.line ?? 0;
  let timer = 0;
  let asked = 0;

  const number = () => fill(gutter, text.value.split("\n").map((_, at) => h("div", {}, at + 1 === bad ? h("span", { class: "bad" }, String(at + 1)) : String(at + 1))));
  const check = async () => {
    asked += 1;
    const own = asked;
    try {
      const { problem } = await post("check", { text: text.value, language: execution.language });
      if (own !== asked) return;
      bad = problem?.line ?? 0;
      fill(says, problem ? h("span", { style: { color: "var(--bad)" } }, `${problem.line ? `line ${problem.line}: ` : ""}${problem.message}`) : h("span", { style: { color: "var(--ok)" } }, isBash ? "✓ no problems found; bash checks the syntax when it starts" : "✓ no problems found"));
    } catch (error) { fill(says, error.message); }
    number();
  };
  const start = async () => {
    go.disabled = true;
    try {
      const { execution_id: started } = await post(`executions/${encodeURIComponent(id)}/rerun`, { text: text.value });
      location.hash = `#/runs/${encodeURIComponent(started)}`;
    } catch (error) { toast(error.message); go.disabled = false; }
  };
  text.addEventListener("input", () => { number(); clearTimeout(timer); timer = setTimeout(check, 200); });
  text.addEventListener("scroll", () => { gutter.scrollTop = text.scrollTop; });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); start(); }
    // Tab stays the key that leaves the field; a new line begins where the last one did.
    if (event.key !== "Enter" || event.defaultPrevented || event.isComposing) return;
    const { selectionStart: at, selectionEnd: to, value: all } = text;
    const line = all.slice(all.lastIndexOf("\n", at - 1) + 1, at);
    const indent = line.match(/^ */)[0] + (isBash ? (/(?:^|[\s;])(?:then|do|else|\{)\s*$/.test(line) ? "  " : "") : /:\s*$/.test(line) ? "    " : "");
    if (!indent) return;
    event.preventDefault();
    text.setRangeText(`\n${indent}`, at, to, "end");
    text.dispatchEvent(new Event("input"));
  });
  go.addEventListener("click", start);
  fill(main, h("div", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs"), h("span", { class: "muted" }, "/"), h("a", { class: "mono", href: `#/runs/${encodeURIComponent(id)}` }, id), h("span", { class: "muted" }, "/"), h("h1", {}, "Rerun with a fix")),
    h("div", { class: "note small" }, `${count} replies are recorded. Calls with the same tool and arguments reuse them; only new calls are made.`),
    visible(execution.program) === execution.program ? null : h("div", { class: "problem" }, "The program contains characters that change the direction of text: in this editor, its lines may read differently from how they run."),
    h("div", { class: "panel" }, h("header", {}, h("h2", {}, "Program"), says, h("span", { class: "grow" }), h("kbd", {}, "Ctrl"), h("kbd", {}, "Enter"), go), h("div", { class: "editor" }, gutter, text)));
  text.style.height = `${Math.min(640, Math.max(380, text.value.split("\n").length * 20 + 24))}px`;
  number();
  text.focus();
  check();
  return () => clearTimeout(timer);
}
