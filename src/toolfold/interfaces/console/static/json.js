// JSON without loss: an integer that a JavaScript number would round is a BigInt, and is written with the digits it was read with.

const LONG = /(?:^|[[:,\s])-?\d{16}/;
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const INTEGER = /^-?\d+$/;
const ESCAPED = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// Made anew each time, so that no text can contain it on purpose.
const newMark = () => `${crypto.getRandomValues(new Uint32Array(4)).join("-")}:`;

export function read(text) {
  const plain = JSON.parse(text);
  if (!LONG.test(text)) return plain;
  const mark = newMark();
  const marked = text.replace(TOKEN, (token) => (INTEGER.test(token) && !Number.isSafeInteger(Number(token)) ? `"${mark}${token}"` : token));
  return JSON.parse(marked, (_, one) => (typeof one === "string" && one.startsWith(mark) ? BigInt(one.slice(mark.length)) : one));
}

// Characters that change the direction of what stands beside them are escaped: what is shown is what is sent.
export function write(value, indent = 0) {
  const mark = newMark();
  const text = JSON.stringify(value, (_, one) => (typeof one === "bigint" ? `${mark}${one}` : one), indent) ?? "";
  return text.replace(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1").replace(ESCAPED, escaped);
}

export const escaped = (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
