// Everything on the page is made here, and text is only ever text: no markup is parsed anywhere.

export function h(tag, options = {}, ...children) {
  const element = tag === "svg" || SVG.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

const SVG = new Set(["rect", "line", "text", "g", "path"]);

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

// Lets the browser draw and answer in between.
export const breathe = () => new Promise((go) => { setTimeout(go); });

export function toast(text) {
  const one = h("div", {}, text);
  document.getElementById("toast").append(one);
  setTimeout(() => one.remove(), 5000);
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.0995) return `${(value * 1000).toFixed(value < 0.00995 ? 1 : 0)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  const whole = Math.round(value);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

export function rounded(value) {
  return Math.round(value).toLocaleString().replace("-", "−");
}

export function bytes(value) {
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (size < 1000) return `${sign}${size} B`;
  if (size < 1e6) return `${sign}${(size / 1e3).toFixed(size < 1e4 ? 1 : 0)} kB`;
  if (size < 1e9) return `${sign}${(size / 1e6).toFixed(size < 1e7 ? 1 : 0)} MB`;
  return `${sign}${(size / 1e9).toFixed(1)} GB`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
export const moment = (at) => day.format(new Date(at * 1000));

export function ago(at) {
  const past = Date.now() / 1000 - at;
  if (past < 60) return `${Math.max(0, Math.floor(past))} s ago`;
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  if (past < 43200) return clock.format(new Date(at * 1000));
  return moment(at);
}

export const plural = (count, word) => `${count.toLocaleString()} ${word}${count === 1 ? "" : "s"}`;

export const pill = (row) => {
  const word = row.waiting ? "waiting" : row.status || row.state;
  return h("span", { class: `pill ${word}` }, word);
};
