// The calls of one run on one time axis. Lanes are the real concurrency: a call takes the first lane that is free.
import { h, seconds, visible } from "./dom.js";

const LANE = 16;
const HEAD = 22;
const LEFT = 8;

export class Waterfall {
  constructor(onSelect) {
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Calls over time" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.scroll = h("div", { class: "scroll" }, this.canvas);
    this.element = h("div", { class: "fall" }, this.scroll, this.tip);
    this.onSelect = onSelect;
    this.calls = [];
    this.marks = [];
    this.end = 1;
    this.lanes = 0;
    this.selected = 0;
    this.waiting = 0;
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", (event) => { const call = this.at(event); if (call) this.onSelect(call.id); });
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
    this.canvas.setAttribute("aria-label", `${calls.length} calls in ${this.lanes} lanes over ${seconds(this.end)}; arrow keys select one`);
    this.schedule();
  }

  schedule() { if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); }); }

  x(at) { return LEFT + (at / this.end) * (this.width - 2 * LEFT); }

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
    const colors = { ok: color("--accent"), bad: color("--bad"), open: color("--run"), record: color("--faint"), wait: color("--warn") };
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const [from, to] of this.marks) {
      pen.fillStyle = color("--warn-soft");
      pen.fillRect(this.x(from), HEAD, Math.max(2, this.x(to ?? this.end) - this.x(from)), height - HEAD);
    }
    const step = nice(this.end / Math.max(2, this.width / 120));
    for (let at = 0; at <= this.end * 1.0001; at += step) {
      const x = this.x(at);
      pen.fillStyle = color("--line");
      pen.fillRect(Math.round(x), HEAD - 4, 1, height);
      pen.fillStyle = color("--soft");
      const text = at === 0 ? "0" : seconds(at);
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
      if (y + LANE < top || y > top + shown) continue;
      const isDecided = call.decidedAt > call.at && !call.asking;
      const from = this.x(isDecided ? call.decidedAt : call.at);
      const to = this.x(call.seconds === null ? this.end : call.at + call.seconds);
      // Ten thousand bars on a thousand pixels: what would cover the same pixels is drawn once.
      if (to - from < 1 && last[call.lane] >= to && call.id !== this.selected && !call.error) continue;
      last[call.lane] = to;
      if (isDecided) {
        pen.fillStyle = colors.wait;
        pen.globalAlpha = 0.45;
        pen.fillRect(this.x(call.at), y + 5, Math.max(2, from - this.x(call.at)), LANE - 10);
      }
      const isLost = call.seconds === null && this.isOver && !call.asking;
      pen.fillStyle = call.asking ? colors.wait : call.error ? colors.bad : call.seconds === null ? colors.open : call.from_record ? colors.record : colors.ok;
      pen.globalAlpha = call.from_record ? 0.45 : 0.9;
      pen.beginPath();
      pen.roundRect(from, y + 2, Math.max(2, to - from), LANE - 4, 3);
      if (isLost) { pen.strokeStyle = colors.record; pen.lineWidth = 1; pen.stroke(); } else pen.fill();
      pen.globalAlpha = 1;
      if (call.id === this.selected) { pen.strokeStyle = color("--text"); pen.lineWidth = 1.5; pen.stroke(); }
      const label = to - from > 36 ? fitted(visible(call.tool), to - from - 12) : "";
      if (label) {
        pen.fillStyle = call.from_record || isLost ? color("--text") : color("--panel");
        pen.fillText(label, from + 6, y + LANE / 2 + 0.5);
      }
    }
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const lane = Math.floor((event.clientY - box.top - HEAD) / LANE);
    const x = event.clientX - box.left;
    let best = null;
    for (const call of this.calls) {
      if (call.lane !== lane) continue;
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
