// Saved programs: what there is and what models propose, and the form that saves the program of a run.
import { get, post } from "./api.js";
import { fill, h, toast } from "./dom.js";
import { read } from "./json.js";

export async function programs(main) {
  const body = h("div", { class: "stack" });
  fill(main, h("h1", { class: "crumbs" }, "Programs"), body);

  async function load() {
    const found = await get("programs");
    const act = (text, kind, path) => h("button", { class: kind, type: "button", disabled: !found.may_act, onclick: async (event) => {
      event.target.disabled = true;
      try { await post(path, {}); } catch (error) { toast(error.message); }
      await load();
    } }, text);
    const test = (program, says) => h("button", { type: "button", disabled: !found.may_act, onclick: async (event) => {
      event.target.disabled = true;
      try {
        const { problems } = await post(`programs/${encodeURIComponent(program.name)}/test`, {});
        fill(says, problems.length ? problems.map((one) => h("div", { class: "problem" }, one)) : h("div", { class: "note small" }, "✓ same calls and value as on record; no tool was called"));
      } catch (error) { toast(error.message); }
      event.target.disabled = false;
    } }, "Test");
    const panel = (program, isProposal) => {
      const says = h("div", { role: "status" }, program.problems.map((one) => h("div", { class: "problem" }, one)));
      const path = `programs/${encodeURIComponent(program.name)}`;
      return h("div", { class: "panel program", "data-key": program.name }, h("header", {}, h("h2", { class: "mono" }, program.name), h("span", { class: "tag" }, isProposal ? "proposed" : `version ${program.version}`), h("span", { class: "muted small" }, program.description), h("span", { class: "grow" }),
        isProposal ? [act("Reject", "bad", `${path}/reject`), act("Accept", "main", `${path}/accept`)] : test(program, says)),
      h("div", { class: "body stack" }, says, h("pre", { class: "signature" }, program.signature), h("details", { open: isProposal }, h("summary", {}, "Program"), h("pre", { class: "signature" }, program.text))));
    };
    if (!found.has_library) { fill(body, h("div", { class: "panel empty" }, h("b", {}, "No folder for saved programs"), "Add programs: {folders: [programs]} to toolfold.yaml.")); return; }
    fill(body, found.proposals.map((one) => panel(one, true)), found.programs.map((one) => panel(one, false)),
      found.proposals.length + found.programs.length ? null : h("div", { class: "panel empty" }, h("b", {}, "No saved programs"), "Open a run and press Save as a tool."));
  }
  await load();
}

export async function save(main, { id }) {
  const { parameters } = await get(`executions/${encodeURIComponent(id)}/parameters`);
  const name = h("input", { "aria-label": "Name", placeholder: "monthly_report", required: true, autocomplete: "off" });
  const about = h("input", { "aria-label": "Description", placeholder: "What it does, in a sentence", autocomplete: "off" });
  const rows = parameters.map((one) => {
    const use = h("input", { type: "checkbox", "aria-label": `Make ${one.name} a parameter` });
    return { use, one, row: h("label", { class: "row" }, use, h("span", { class: "mono" }, `${one.name} = ${JSON.stringify(one.value)}`), h("span", { class: "muted small" }, `line ${one.line}`)) };
  });
  const more = h("input", { "aria-label": "More parameters", placeholder: 'More, by value: {"year": 2026}', autocomplete: "off" });
  const says = h("div", { role: "status" });
  const send = async (event) => {
    event.preventDefault();
    let wanted = Object.fromEntries(rows.filter(({ use }) => use.checked).map(({ one }) => [one.name, one.value]));
    try { if (more.value) wanted = { ...wanted, ...read(more.value) }; } catch { toast("The parameters are not a JSON object"); return; }
    fill(says, h("div", { class: "muted" }, "Running it against its record …"));
    try {
      await post(`executions/${encodeURIComponent(id)}/save`, { name: name.value, description: about.value, parameters: wanted });
      location.hash = "#/programs";
    } catch (error) { fill(says, h("div", { class: "problem" }, error.message)); }
  };
  fill(main, h("div", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs"), h("span", { class: "muted" }, "/"), h("a", { class: "mono", href: `#/runs/${encodeURIComponent(id)}` }, id), h("span", { class: "muted" }, "/"), h("h1", {}, "Save as a tool")),
    h("div", { class: "note small" }, "The program is called with its recorded values and must make exactly the recorded calls. No tool is called."),
    h("form", { class: "panel", onsubmit: send }, h("header", {}, h("h2", {}, "A tool for later programs")), h("div", { class: "body form" },
      h("label", {}, h("div", {}, "Name *"), name), h("label", {}, h("div", {}, "Description"), about),
      rows.length ? h("div", {}, h("div", {}, "Parameters: literals that were passed to tools"), rows.map(({ row }) => row)) : null, h("label", {}, h("div", {}, "More parameters"), more),
      h("div", {}, h("button", { class: "main" }, "Save")), says)));
  name.focus();
}
