// What programs kept out of models' contexts, and what they cost, as plain as the gains.
import { get } from "./api.js";
import { bytes, fill, h, rounded } from "./dom.js";

export async function savings(main, { query }) {
  const days = Number(query.get("days")) || 7;
  const found = await get("savings", { days });
  const gain = found.buckets.reduce((sum, one) => sum + one.saved_bytes, 0);
  const loss = found.buckets.reduce((sum, one) => sum + one.lost_bytes, 0);
  const count = found.buckets.reduce((sum, one) => sum + one.executions, 0);
  const card = (text, about, kind = "") => h("div", { class: `panel stat ${kind}` }, h("b", {}, text), h("span", {}, about));
  const interfaces = new Map();
  for (const one of found.buckets) { const sum = interfaces.get(one.interface) ?? [0, 0, 0]; interfaces.set(one.interface, [sum[0] + one.executions, sum[1] + one.saved_bytes, sum[2] + one.lost_bytes]); }
  const cell = (text) => h("td", { class: "num" }, text);
  const pick = h("select", { "aria-label": "Time", onchange: () => { location.hash = `#/savings?days=${pick.value}`; } }, [[1, "Last day"], [7, "Last week"], [30, "Last 30 days"], [90, "Last 90 days"]].map(([value, text]) => h("option", { value, selected: value === days }, text)));
  const place = h("div", { class: "body" });
  fill(main, h("div", { class: "crumbs" }, h("h1", {}, "Savings"), h("span", { class: "grow" }), pick),
    h("div", { class: "stats" }, card(bytes(gain), "context saved"), card(bytes(loss), "lost where direct calls would have been cheaper", loss ? "alert" : ""), card(`≈ ${rounded((gain - loss) / 4)}`, "tokens, net (4 bytes per token)"), card(count.toLocaleString(), "executions")),
    h("div", { class: "panel" }, h("header", {}, h("h2", {}, "Over time"), h("span", { class: "muted small" }, "gains above the line, losses below")), place),
    h("div", { class: "split" },
      h("div", { class: "panel" }, h("header", {}, h("h2", {}, "By interface")), h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Interface"), ["Executions", "Context saved", "Lost"].map((text) => h("th", { class: "num" }, text)))), h("tbody", {}, [...interfaces].map(([name, [runs, saved, lost]]) => h("tr", {}, h("td", {}, name || "–"), cell(runs.toLocaleString()), cell(bytes(saved)), cell(bytes(lost)))))))),
      h("div", { class: "panel" }, h("header", {}, h("h2", {}, "By tool"), h("span", { class: "muted small" }, "replies read by programs in the latest executions")), h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Tool"), h("th", { class: "num" }, "Calls"), h("th", { class: "num" }, "Replies"))), h("tbody", {}, found.tools.map((one) => h("tr", {}, h("td", { class: "mono" }, one.tool), cell(one.calls.toLocaleString()), cell(bytes(one.reply_bytes))))))))));
  // One unit is one pixel, so that its words are as large as all others.
  const draw = () => fill(place, chart(found, Math.max(200, place.clientWidth - 28)));
  draw();
  const watcher = new ResizeObserver(draw);
  watcher.observe(main);
  return () => watcher.disconnect();
}

function chart({ buckets, bucket_seconds: step }, whole) {
  if (!buckets.length) return h("div", { class: "empty" }, "No programs ended in this period");
  const sums = new Map();
  for (const one of buckets) { const sum = sums.get(one.at) ?? [0, 0]; sums.set(one.at, [sum[0] + one.saved_bytes, sum[1] + one.lost_bytes]); }
  const first = Math.min(...sums.keys());
  const last = Math.max(...sums.keys());
  const slots = Math.max(7, Math.round((last - first) / step) + 1);
  const up = Math.max(1, ...[...sums.values()].map(([gain]) => gain));
  const down = Math.max(up / 20, ...[...sums.values()].map(([, loss]) => loss));
  const zero = 16 + (160 * up) / (up + down);
  const width = (whole - 40) / slots;
  const scale = 160 / (up + down);
  const svg = h("svg", { class: "chart", viewBox: `0 0 ${whole} 220`, role: "img", "aria-label": `Gains up to ${bytes(up)} and losses up to ${bytes(down)} over time` });
  svg.append(h("line", { x1: 0, x2: whole, y1: zero, y2: zero }), h("text", { x: 0, y: 12 }, bytes(up)));
  const name = new Intl.DateTimeFormat(undefined, step < 86400 ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" });
  for (const [at, [gain, loss]] of sums) {
    const x = 30 + ((at - first) / step) * width;
    svg.append(h("rect", { class: "g", x: x + width * 0.15, width: width * 0.7, y: zero - gain * scale, height: Math.max(0, gain * scale), rx: 2 }));
    if (loss) svg.append(h("rect", { class: "l", x: x + width * 0.15, width: width * 0.7, y: zero + 1, height: Math.max(1, loss * scale), rx: 2 }));
    if (width >= 40) svg.append(h("text", { x: x + width / 2, y: 212, "text-anchor": "middle" }, name.format(new Date(at * 1000))));
  }
  return svg;
}
