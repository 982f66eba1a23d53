// The frame around every view: the address, the badge, the connection, light and dark.
import { everything, get, listen, Refused, signIn } from "./api.js";
import { fill, h, toast } from "./dom.js";
import { inbox } from "./inbox.js";
import { run } from "./run.js";
import { rerun } from "./rerun.js";
import { compare } from "./compare.js";
import { conversation } from "./conversation.js";
import { programs, save } from "./programs.js";
import { runs } from "./runs.js";
import { savings } from "./savings.js";
import { tools } from "./tools.js";

const main = document.getElementById("main");
const loading = document.getElementById("loading");
let leave = () => {};
let turn = 0;

function address() {
  const [path, query = ""] = (location.hash.slice(1) || "/runs").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
}

async function show() {
  const { parts, query } = address();
  const [view = "runs", id, more, item] = parts;
  leave();
  leave = () => {};
  turn += 1;
  const own = turn;
  const slow = setTimeout(() => { loading.hidden = own !== turn; }, 300);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  const views = { inbox, tools, programs, savings, conversations: conversation, runs: id ? { rerun, compare, save }[more] ?? run : runs };
  document.title = `${{ inbox: "Inbox", tools: "Tools", programs: "Programs", savings: "Savings" }[view] ?? (id ? id.slice(0, 8) : "Runs")} · toolfold`;
  try {
    const left = await (views[view] ?? runs)(main, { id, item, query, isCurrent: () => own === turn });
    if (own === turn) leave = left ?? (() => {}); else left?.();
  } catch (error) {
    if (own === turn) failed(error);
  } finally {
    clearTimeout(slow);
    if (own === turn) loading.hidden = true;
  }
}

function failed(error) {
  if (error instanceof Refused && error.status === 401) { showSignIn(error.message); return; }
  const back = h("a", { href: "#/runs" }, "Back to all runs");
  const again = h("button", { type: "button", onclick: begin }, "Try again");
  const [title, about, action] = !(error instanceof Refused)
    ? error instanceof TypeError && /fetch|network|load failed/i.test(error.message) ? ["The console does not answer", "It may have been stopped, or the connection is down. Start it again if it runs on this machine.", again] : ["Something went wrong", String(error.message), again]
    : error.status === 404 ? ["This is not here", `${error.message}. It may have been deleted since, or you may not see it.`, back]
      : error.status === 429 ? ["Too many requests", error.message, again] : [error.message, null, back];
  fill(main, h("div", { class: "panel empty", role: "alert" }, h("b", {}, title), h("div", {}, about), action));
}

function showSignIn(text) {
  const key = h("input", { type: "password", "aria-label": "API key", placeholder: "API key", autocomplete: "off" });
  const send = async (event) => {
    event.preventDefault();
    try { await signIn(key.value); begin(); } catch (error) { toast(error.message); }
  };
  fill(main, h("form", { class: "panel signin", onsubmit: send }, h("header", {}, h("h1", {}, "Sign in")), h("div", { class: "body" },
    h("div", { class: "muted" }, `${text}. If the server uses API keys, you can also sign in with yours.`), key, h("button", { class: "main" }, "Sign in"))));
}

const badge = document.getElementById("badge");
const live = document.getElementById("live");
let waiting = 0;

everything.addEventListener("news", ({ detail }) => {
  live.textContent = "live";
  live.className = "live on";
  if (detail.waiting === undefined) return;
  if (detail.waiting > waiting && document.hidden && window.Notification?.permission === "granted") {
    new Notification("toolfold", { body: `${detail.waiting} waiting for approval`, tag: "toolfold-inbox" });
  }
  waiting = detail.waiting;
  badge.hidden = !waiting;
  badge.textContent = waiting;
  badge.setAttribute("aria-label", `${waiting} waiting`);
});
everything.addEventListener("state", ({ detail }) => {
  live.textContent = detail === "on" ? "live" : "reconnecting";
  live.className = `live ${detail}`;
});

const notify = document.getElementById("notify");
if (window.Notification?.permission === "default") {
  notify.hidden = false;
  notify.addEventListener("click", async () => { await Notification.requestPermission(); notify.hidden = true; });
}

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => { root.dataset.theme = localStorage.getItem("theme") ?? (dark.matches ? "dark" : "light"); };
dark.addEventListener("change", paint);
document.getElementById("theme").addEventListener("click", () => {
  localStorage.setItem("theme", root.dataset.theme === "dark" ? "light" : "dark");
  paint();
  window.dispatchEvent(new Event("repaint"));
});

async function begin() {
  paint();
  try { await get("overview"); } catch (error) { failed(error); return; }
  listen();
  show();
}

// What fails while a view is open: a sign-in that has ended, or a reload in the background.
window.addEventListener("unhandledrejection", (event) => {
  const { reason } = event;
  if (!(reason instanceof Refused) && !(reason instanceof TypeError && /fetch|network|load failed/i.test(reason.message))) return;
  event.preventDefault();
  if (reason.status === 401) { leave(); leave = () => {}; turn += 1; showSignIn(reason.message); } else toast(reason.message);
});

// An anchor on the page, such as that of "Skip to content", is no view.
window.addEventListener("hashchange", () => { if (!location.hash || location.hash.startsWith("#/")) show(); });
begin();
