// A list of any length: only the rows that can be seen, and the one with the focus, are there.
import { h, keepFocus } from "./dom.js";

export class LongList {
  constructor({ height, className, draw, keyOf, onEnd = null, label, most = 0 }) {
    this.height = height;
    this.most = most;
    this.draw = draw;
    this.keyOf = keyOf;
    this.onEnd = onEnd;
    this.items = [];
    this.space = h("div", { class: "space" });
    this.element = h("div", { class: className, tabindex: "-1", role: "list", "aria-label": label }, this.space);
    this.element.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.watcher = new ResizeObserver(() => this.schedule());
    this.watcher.observe(this.element);
    this.waiting = 0;
  }

  show(items) {
    this.items = items;
    // At once, or there would be no room yet to scroll to the row that is revealed.
    this.space.style.height = `${items.length * this.height}px`;
    if (this.most) this.element.style.height = `${Math.min(this.most, Math.max(1, items.length) * this.height)}px`;
    this.schedule();
  }

  schedule() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.render(); });
  }

  reveal(index) {
    const top = index * this.height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || top + this.height > scrollTop + clientHeight) this.element.scrollTop = top - clientHeight / 2;
  }

  // The row with the focus is there even if it cannot be seen.
  focusIndex() {
    const row = this.space.contains(document.activeElement) ? document.activeElement.closest("[data-key]") : null;
    return row ? this.items.findIndex((one) => String(this.keyOf(one)) === row.dataset.key) : -1;
  }

  render() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - 4);
    const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / this.height) + 4);
    const rows = [];
    const add = (index) => {
      const row = this.draw(this.items[index], index);
      row.dataset.key = this.keyOf(this.items[index]);
      row.style.top = `${index * this.height}px`;
      rows.push(row);
    };
    const focus = this.focusIndex();
    if (focus >= 0 && focus < first) add(focus);
    for (let index = first; index < last; index += 1) add(index);
    if (focus >= last) add(focus);
    keepFocus(this.space, () => this.space.replaceChildren(...rows));
    if (this.onEnd && last >= this.items.length - 10) this.onEnd();
  }
}
