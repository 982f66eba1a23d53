// The calls of one run on one time axis. Lanes are the real concurrency: a call takes the first lane that is free.
import { fill, h, seconds, visible } from "./dom.js";

const LANE = 16;
const HEAD = 22;
const LEFT = 8;
const COLORS = 8;
const CLOSEST = 1e-5;
const DRAG = 5;

export class Waterfall {
  constructor(onSelect) {
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Calls over time" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.scroll = h("div", { class: "scroll" }, this.canvas);
    this.brush = h("div", { class: "brush", hidden: true });
    this.element = h("div", { class: "fall" }, this.scroll, this.brush, this.tip);
    const button = (text, label, act) => h("button", { class: "small", type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.buttons = h("span", { class: "zoom" }, button("+", "Zoom in (+)", () => this.zoom(0.5)), button("−", "Zoom out (−)", () => this.zoom(2)), button("Fit", "Fit all (0)", () => this.fit()));
    this.legend = h("div", { class: "legend tools-legend", role: "group", "aria-label": "Tools" });
    this.onSelect = onSelect;
    this.onPick = () => {};
    // The part in sight, in seconds; null: all of it, also while it grows.
    this.part = null;
    this.picked = new Set();
    this.colors = new Map();
    this.calls = [];
    this.marks = [];
    this.end = 1;
    this.lanes = 0;
    this.selected = 0;
    this.waiting = 0;
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", (event) => { const call = this.wasDrag ? null : this.at(event); if (call) this.onSelect(call.id); });
    this.canvas.addEventListener("dblclick", () => this.fit());
    this.canvas.addEventListener("pointerdown", (event) => this.drag(event));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.watcher = new ResizeObserver(() => this.schedule());
    this.watcher.observe(this.scroll);
    this.repaint = () => this.schedule();
    window.addEventListener("repaint", this.repaint);
    this.scroll.addEventListener("scroll", () => this.schedule(), { passive: true });
  }

  close() { this.watcher.disconnect(); window.removeEventListener("repaint", this.repaint); }

  // `calls` in the order in which they were made; `marks` are pauses: [from, to].
  show(calls, end, marks) {
    this.calls = calls;
    this.marks = marks;
    this.end = Math.max(end, 0.001);
    const free = [];
    for (const call of [...calls].sort((one, other) => one.at - other.at)) {
      let lane = free.findIndex((until) => until <= call.at + 1e-9);
      if (lane < 0) lane = free.length;
      free[lane] = call.seconds === null ? Infinity : call.at + call.seconds;
      call.lane = lane;
    }
    this.lanes = free.length;
    this.element.dataset.lanes = this.lanes;
    this.element.dataset.calls = calls.length;
    this.element.dataset.replied = calls.reduce((sum, call) => sum + (call.seconds !== null), 0);
    this.canvas.setAttribute("aria-label", `${calls.length} calls in ${this.lanes} lanes over ${seconds(this.end)}; arrow keys select one, plus and minus zoom, shift and arrows move, 0 shows all`);
    this.drawLegend();
    this.schedule();
  }

  schedule() { if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); }); }

  get window() { return this.part ?? [0, this.end]; }

  x(at) { const [from, to] = this.window; return LEFT + ((at - from) / (to - from)) * (this.width - 2 * LEFT); }

  timeAt(x) { const [from, to] = this.window; return from + ((x - LEFT) / (this.width - 2 * LEFT)) * (to - from); }

  fit() { this.part = null; this.schedule(); }

  look(from, to) {
    const length = Math.min(this.end, Math.max(to - from, this.end * CLOSEST));
    const start = Math.min(Math.max(0, from), this.end - length);
    this.part = length >= this.end ? null : [start, start + length];
    this.schedule();
  }

  // About a time that stays where it is: under the mouse, else the selected call, else the middle.
  zoom(factor, about = null) {
    const [from, to] = this.window;
    const call = this.calls.find((one) => one.id === this.selected);
    const isInSight = call && call.at >= from && call.at <= to;
    const fixed = about ?? (isInSight ? call.at : (from + to) / 2);
    this.look(fixed - (fixed - from) * factor, fixed + (to - fixed) * factor);
  }

  move(share) { const [from, to] = this.window; this.look(from + (to - from) * share, to + (to - from) * share); }

  select(id) {
    this.selected = id;
    const call = this.calls.find((one) => one.id === id);
    const [from, to] = this.window;
    if (call && this.part && (call.at > to || call.at + (call.seconds ?? this.end) < from)) this.look(call.at - (to - from) / 4, call.at + (3 * (to - from)) / 4);
    this.schedule();
  }

  wheel(event) {
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    if (event.ctrlKey || event.metaKey) this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.timeAt(x));
    else if (event.shiftKey && this.part) this.move(Math.sign(event.deltaY || event.deltaX) * 0.1);
    else return;
    event.preventDefault();
  }

  // A part that is drawn with the mouse is looked at.
  drag(event) {
    this.wasDrag = false;
    if (event.button !== 0 || event.pointerType === "touch") return;
    const { left } = this.canvas.getBoundingClientRect();
    const began = event.clientX - left;
    const moved = (next) => {
      const x = Math.min(this.width, Math.max(0, next.clientX - left));
      this.wasDrag ||= Math.abs(x - began) > DRAG;
      this.brush.hidden = !this.wasDrag;
      Object.assign(this.brush.style, { left: `${Math.min(x, began)}px`, width: `${Math.abs(x - began)}px` });
      return x;
    };
    const stop = (next) => {
      window.removeEventListener("pointermove", moved);
      window.removeEventListener("pointerup", stop);
      const x = moved(next);
      this.brush.hidden = true;
      if (this.wasDrag) this.look(this.timeAt(Math.min(x, began)), this.timeAt(Math.max(x, began)));
    };
    window.addEventListener("pointermove", moved);
    window.addEventListener("pointerup", stop);
  }

  // Tools have a color each, the most used ones first; those that are pressed are the only ones in sight.
  drawLegend() {
    const counts = new Map();
    for (const call of this.calls) counts.set(call.tool, (counts.get(call.tool) ?? 0) + 1);
    for (const tool of [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one))) {
      if (!this.colors.has(tool)) this.colors.set(tool, Math.min(this.colors.size, COLORS - 1));
    }
    const state = [...counts].flat().join(" ") + [...this.picked].join(" ");
    if (this.legendState === state) return;
    this.legendState = state;
    const pick = (tool) => { if (!this.picked.delete(tool)) this.picked.add(tool); this.drawLegend(); this.schedule(); this.onPick(this.picked); };
    fill(this.legend, [...counts].slice(0, 40).map(([tool, count]) => h("button", { class: "small tool-key", type: "button", "aria-pressed": String(this.picked.has(tool)), "data-key": tool, onclick: () => pick(tool) },
      h("i", { style: { background: `var(--tool-${this.colors.get(tool)})` } }), h("span", { class: "mono" }, tool), h("span", { class: "muted num" }, ` ${count.toLocaleString()}`))));
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.scroll.clientWidth;
    const height = HEAD + Math.max(1, this.lanes) * LANE + 8;
    const shown = Math.min(height, 300);
    this.canvas.style.height = `${height}px`;
    // A browser's canvas has a limit: of many lanes only those in sight are drawn, into one that does not grow.
    const top = this.scroll.scrollTop;
    const paper = Math.min(height, 4000);
    this.canvas.width = this.width * ratio;
    this.canvas.height = paper * ratio;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, (ratio * paper) / height);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const tools = Array.from({ length: COLORS }, (_, at) => color(`--tool-${at}`));
    const colors = { bad: color("--bad"), open: color("--run"), record: color("--faint"), wait: color("--warn") };
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const [from, to] of this.marks) {
      pen.fillStyle = color("--warn-soft");
      pen.fillRect(this.x(from), HEAD, Math.max(2, this.x(to ?? this.end) - this.x(from)), height - HEAD);
    }
    const [first, until] = this.window;
    this.element.dataset.from = first;
    this.element.dataset.until = until;
    const step = nice((until - first) / Math.max(2, this.width / 120));
    for (let at = Math.ceil(first / step) * step; at <= until + step * 0.001; at += step) {
      const x = this.x(at);
      pen.fillStyle = color("--line");
      pen.fillRect(Math.round(x), HEAD - 4, 1, height);
      pen.fillStyle = color("--soft");
      const text = at === 0 ? "0" : seconds(step < 0.01 && at >= 0.1 ? Number(at.toPrecision(6)) : at);
      const width = pen.measureText(text).width;
      pen.fillText(text, Math.min(this.width - width - 2, Math.max(2, x - width / 2)), 9);
    }
    const last = [];
    const widths = new Map();
    const fitted = (text, room) => {
      if (!widths.has(text)) widths.set(text, pen.measureText(text).width);
      const width = widths.get(text);
      if (width <= room) return text;
      const kept = Math.floor((text.length * room) / width) - 1;
      return kept < 6 ? "" : `${text.slice(0, kept)}…`;
    };
    pen.font = "10.5px system-ui, sans-serif";
    for (const call of this.calls) {
      const y = HEAD + call.lane * LANE;
      if (y + LANE < top || y > top + shown || (this.picked.size && !this.picked.has(call.tool))) continue;
      const isDecided = call.decidedAt > call.at && !call.asking;
      const from = Math.max(-9, this.x(isDecided ? call.decidedAt : call.at));
      const to = Math.min(this.width + 9, this.x(call.seconds === null ? this.end : call.at + call.seconds));
      if (to < 0 || this.x(call.at) > this.width) continue;
      // Ten thousand bars on a thousand pixels: what would cover the same pixels is drawn once.
      if (to - from < 1 && last[call.lane] >= to && call.id !== this.selected && !call.error) continue;
      last[call.lane] = to;
      if (isDecided) {
        pen.fillStyle = colors.wait;
        pen.globalAlpha = 0.45;
        pen.fillRect(this.x(call.at), y + 5, Math.max(2, from - this.x(call.at)), LANE - 10);
      }
      const isLost = call.seconds === null && this.isOver && !call.asking;
      pen.fillStyle = call.asking ? colors.wait : call.error ? colors.bad : call.seconds === null ? colors.open : call.from_record ? colors.record : tools[this.colors.get(call.tool) ?? 0];
      pen.globalAlpha = call.from_record ? 0.45 : 0.9;
      pen.beginPath();
      pen.roundRect(from, y + 2, Math.max(2, to - from), LANE - 4, 3);
      if (isLost) { pen.strokeStyle = colors.record; pen.lineWidth = 1; pen.stroke(); } else pen.fill();
      pen.globalAlpha = 1;
      if (call.id === this.selected) { pen.strokeStyle = color("--text"); pen.lineWidth = 1.5; pen.stroke(); }
      const room = Math.min(to, this.width) - Math.max(0, from);
      const label = room > 36 ? fitted(visible(call.tool), room - 12) : "";
      if (label) {
        pen.fillStyle = call.from_record || isLost ? color("--text") : color("--panel");
        pen.fillText(label, Math.max(0, from) + 6, y + LANE / 2 + 0.5);
      }
    }
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const lane = Math.floor((event.clientY - box.top - HEAD) / LANE);
    const x = event.clientX - box.left;
    let best = null;
    for (const call of this.calls) {
      if (call.lane !== lane || (this.picked.size && !this.picked.has(call.tool))) continue;
      const from = this.x(call.at) - 2;
      const to = Math.max(from + 6, this.x(call.seconds === null ? this.end : call.at + call.seconds) + 2);
      if (x >= from && x <= to) best = call;
    }
    return best;
  }

  hover(event) {
    const call = this.at(event);
    this.tip.hidden = !call;
    if (!call) return;
    this.tip.textContent = `#${call.id} ${visible(call.tool)} · line ${call.line || "?"} · ${call.seconds === null ? (this.isOver ? "no reply" : "in flight") : seconds(call.seconds)}${call.decidedAt > call.at ? `, including ${seconds(call.decidedAt - call.at)} waiting for approval` : ""}${call.error ? " · failed" : ""}${call.from_record ? " · from the record" : ""}`;
    const box = this.element.getBoundingClientRect();
    this.tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width - 220)}px`;
    this.tip.style.top = `${event.clientY - box.top + 14}px`;
  }

  key(event) {
    const act = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.fit() }[event.key]
      ?? (event.shiftKey ? { ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25) }[event.key] : null);
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); return; }
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !this.calls.length) return;
    event.preventDefault();
    const index = this.calls.findIndex((call) => call.id === this.selected);
    this.onSelect(this.calls[Math.min(this.calls.length - 1, Math.max(0, index + step))].id);
  }
}

function nice(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= step);
}
