// Python, coloured line by line: enough to read by, without a parser.
import { h } from "./dom.js";

const KEYWORDS = new Set(("False None True and as assert async await break class continue def del elif else except finally for "
  + "from global if import in is lambda nonlocal not or pass raise return try while with yield match case").split(" "));
const TOKEN = /(#.*$)|([rbfuRBFU]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))|\b(\d[\d_]*\.?\d*(?:e[+-]?\d+)?)\b|([A-Za-z_]\w*)/g;

export function lines(text, tools) {
  const known = new Set(tools);
  let quote = "";
  return text.split("\n").map((line) => {
    const parts = [];
    let rest = line;
    if (quote) {
      const end = rest.indexOf(quote);
      if (end < 0) return [h("span", { class: "ts" }, line)];
      parts.push(h("span", { class: "ts" }, rest.slice(0, end + 3)));
      rest = rest.slice(end + 3);
      quote = "";
    }
    const opening = /("""|''')/.exec(rest);
    let tail = null;
    if (opening && !rest.slice(0, opening.index).includes("#")) {
      const close = rest.indexOf(opening[1], opening.index + 3);
      if (close < 0) {
        quote = opening[1];
        tail = h("span", { class: "ts" }, rest.slice(opening.index));
        rest = rest.slice(0, opening.index);
      }
    }
    let last = 0;
    for (const found of rest.matchAll(TOKEN)) {
      const [token, comment, string, number, name] = found;
      const kind = comment ? "tc" : string ? "ts" : number ? "tn" : KEYWORDS.has(name) ? "tk" : known.has(name) ? "tt" : "";
      if (!kind) continue;
      parts.push(rest.slice(last, found.index), h("span", { class: kind }, token));
      last = found.index + token.length;
    }
    parts.push(rest.slice(last));
    if (tail) parts.push(tail);
    return parts;
  });
}
