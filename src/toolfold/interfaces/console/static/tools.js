// The tools that programs have: found as programs find them, with what was seen of them, and a form to try one.
import { get, post } from "./api.js";
import { ago, fill, h, plural, seconds, toast } from "./dom.js";
import { read } from "./json.js";
import { value } from "./values.js";

export async function tools(main, { query }) {
  let mayAct = true;
  let selected = "";
  const list = h("div", { class: "panel", role: "listbox", "aria-label": "Tools" });
  const detail = h("div", { class: "stack" });
  let timer = 0;
  const search = h("input", { type: "search", placeholder: "Search as programs do: describe what the tool should do", "aria-label": "Search tools", value: query.get("q") ?? "",
    oninput: () => { clearTimeout(timer); timer = setTimeout(() => { history.replaceState(null, "", `#/tools${search.value ? `?q=${encodeURIComponent(search.value)}` : ""}`); load(); }, 180); } });
  const servers = h("div", { class: "servers" });
  fill(main, h("h1", { class: "crumbs" }, "Tools"), h("div", { class: "filters" }, search), servers, h("div", { class: "tools" }, list, detail));

  const share = (tool) => (tool.calls ? `${((100 * tool.failed) / tool.calls).toFixed(tool.failed && tool.failed / tool.calls < 0.01 ? 1 : 0)} % failed` : "");

  async function load() {
    const found = await get("tools", { q: search.value });
    mayAct = found.may_act;
    fill(servers, found.servers.map((one) => h("span", { class: `server ${one.state}`, title: one.detail }, h("span", { class: `pill ${{ ready: "finished", failed: "failed" }[one.state] ?? "running"}` }, one.state), h("b", { class: "mono" }, one.name), h("span", { class: "muted small" }, plural(one.tools, "tool")), one.state === "failed" && one.detail ? h("span", { class: "small loss" }, one.detail.slice(0, 160)) : null)));
    if (!found.tools.length) { fill(list, h("div", { class: "empty" }, h("b", {}, search.value ? "No tools found" : "No tools"), search.value ? "Try different words." : "Start the console with the toolfold.yaml of your programs, or with --tools FILE.py.")); fill(detail); return; }
    fill(list, found.tools.map((tool) => h("button", { class: "tool", type: "button", role: "option", "aria-selected": String(tool.name === selected), "data-tool": tool.name, onclick: () => pick(tool, found.tools) },
      h("div", { class: "row" }, h("span", { class: "mono" }, tool.python_name), h("span", { class: "tag" }, tool.source), tool.read_only ? h("span", { class: "tag" }, "read-only") : null, tool.destructive ? h("span", { class: "tag" }, "destructive") : null, h("span", { class: "grow" }),
        tool.calls ? h("span", { class: "small muted num" }, `${plural(tool.calls, "call")} · p50 ${seconds(tool.p50)}`) : null),
      h("div", { class: "about" }, tool.description || "No description"))));
    const first = found.tools.find((tool) => tool.name === selected) ?? found.tools[0];
    pick(first, found.tools);
  }

  function pick(tool) {
    selected = tool.name;
    for (const one of list.children) one.setAttribute("aria-selected", String(one.dataset.tool === tool.name));
    const pair = (name, text) => [h("dt", {}, name), h("dd", {}, text)];
    const properties = Object.entries(tool.input_schema.properties ?? {});
    const required = new Set(tool.input_schema.required ?? []);
    const fields = properties.map(([name, schema]) => [name, schema, control(name, schema)]);
    const reply = h("div", {});
    const send = async (event) => {
      event.preventDefault();
      const given = {};
      try {
        for (const [name, schema, field] of fields) {
          const text = field.value;
          if (text === "" && !required.has(name)) continue;
          given[name] = schema.type === "string" || schema.enum ? text : text === "" ? null : read(text);
        }
      } catch { toast("A value is not valid JSON; put text in quotes"); return; }
      fill(reply, h("div", { class: "muted" }, "Calling …"));
      try {
        const found = await post(`tools/${encodeURIComponent(tool.name)}/call`, { arguments: given });
        fill(reply, found.error ? h("pre", { class: "problem" }, found.error) : value(found.reply));
      } catch (error) { fill(reply, h("pre", { class: "problem" }, error.message)); }
    };
    fill(detail, h("div", { class: "panel" }, h("header", {}, h("h2", { class: "mono" }, tool.name)), h("div", { class: "body stack" }, h("pre", { class: "signature" }, tool.signature),
      h("dl", { class: "kv" }, pair("recent calls", tool.calls ? `${tool.calls.toLocaleString()}, ${share(tool)}` : "none"), tool.calls ? pair("p50 / p95", `${seconds(tool.p50)} / ${seconds(tool.p95)}`) : null, tool.last_at ? pair("last used", ago(tool.last_at)) : null, tool.breaker ? pair("breaker", `${tool.breaker.did === "closed" ? "closed again" : tool.breaker.did}, ${ago(tool.breaker.at)}`) : null),
      tool.errors.length ? h("div", {}, h("div", { class: "muted small" }, "Last errors"), tool.errors.map((one) => h("pre", { class: "problem" }, `${ago(one.at)}: ${one.error}`))) : null)),
    h("form", { class: "panel", onsubmit: send }, h("header", {}, h("h2", {}, "Try it"), h("span", { class: "muted small" }, "a direct call; it is recorded")), h("div", { class: "body form" },
      fields.map(([name, schema, field]) => h("label", {}, h("div", {}, name, required.has(name) ? " *" : "", " ", h("span", {}, [schema.type, schema.description].flat().filter(Boolean).join(" · "))), field)),
      h("div", {}, h("button", { class: "main", disabled: !mayAct }, "Call")), reply)));
  }

  function control(name, schema) {
    if (schema.enum) return h("select", { "aria-label": name }, schema.enum.map((one) => h("option", { value: one }, String(one))));
    if (schema.type === "boolean") return h("select", { "aria-label": name }, ["", "true", "false"].map((one) => h("option", { value: one }, one)));
    return h("input", { "aria-label": name, placeholder: schema.default === undefined ? "" : String(schema.default) });
  }

  await load();
  return () => clearTimeout(timer);
}
