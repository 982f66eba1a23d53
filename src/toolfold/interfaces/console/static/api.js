// The page talks to the API of its own server, and to nothing else.
import { read, write } from "./json.js";

export class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

async function answer(response) {
  const body = await response.text().then(read).catch(() => ({ error: `the server responded with status ${response.status}` }));
  if (!response.ok) throw new Refused(response.status, body.error || `the server responded with status ${response.status}`);
  return body;
}

export const get = (path, query = {}) => {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(given).toString();
  return fetch(`api/${path}${text ? `?${text}` : ""}`, { credentials: "same-origin" }).then(answer);
};

export const post = (path, body) => fetch(`api/${path}`, {
  method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: write(body),
}).then(answer);

export const signIn = (key) => fetch("login", { method: "POST", credentials: "same-origin", body: key }).then(answer);

// What happens anywhere: one stream for the whole page, which comes back by itself.
export const everything = new EventTarget();
let source = null;

export function listen() {
  if (source) return;
  source = new EventSource("api/events");
  source.onopen = () => everything.dispatchEvent(new CustomEvent("state", { detail: "on" }));
  source.onmessage = (message) => everything.dispatchEvent(new CustomEvent("news", { detail: read(message.data) }));
  source.onerror = () => {
    everything.dispatchEvent(new CustomEvent("state", { detail: "off" }));
    if (source.readyState === EventSource.CLOSED) { source = null; setTimeout(listen, 1000); }
  };
}

// One run: goes on where it was after a lost connection, for the browser sends the last id again.
export function follow(id, place, onMessage) {
  let ended = false;
  let at = place;
  let stream = null;
  const open = () => {
    stream = new EventSource(`api/executions/${encodeURIComponent(id)}/events?after=${at}`);
    stream.onmessage = (message) => {
      at = Number(message.lastEventId) || at;
      const body = read(message.data);
      if (body.state === "ended") { ended = true; stream.close(); }
      onMessage(body);
    };
    stream.onerror = () => {
      if (!ended && stream.readyState === EventSource.CLOSED) setTimeout(open, 1000);
    };
  };
  open();
  return () => { ended = true; stream.close(); };
}
