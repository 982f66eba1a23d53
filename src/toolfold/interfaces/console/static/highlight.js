// Python and bash, coloured: enough to read by, without a parser.
import { h } from "./dom.js";

const KEYWORDS = new Set(("False None True and as assert async await break class continue def del elif else except finally for "
  + "from global if import in is lambda nonlocal not or pass raise return try while with yield match case").split(" "));
const TOKEN = /(#.*$)|([rbfuRBFU]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))|\b(\d[\d_]*\.?\d*(?:e[+-]?\d+)?)\b|([A-Za-z_]\w*)/g;

export const lines = (text, tools, language) => (language === "bash" ? bash : python)(text, tools);

function python(text, tools) {
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

const WORDS = new Set(("if then elif else fi case esac for while until do done in function select time coproc declare typeset local "
  + "readonly export unset return exit break continue shift set trap eval source { } ! [[ ]]").split(" "));
const OPENS_COMMAND = new Set("if then elif else while until do time ! {".split(" "));
const HEREDOC = /<<(-?)[ \t]*(?:'([^'\n]+)'|"([^"\n]+)"|\\?([A-Za-z_][\w.-]*))/y;
const VARIABLE = /\$(?:\w+|[?!#@*$-]|\{[^}\n]*\}?)/y;
const IN_STRING = /(?:\\[^]|[^"\\$`])+|[^]/y;
const BARE = /((?<![^\s;&|()])#[^\n]*)|(\$'(?:\\[^]|[^'\\])*'?|'[^']*'?)|([A-Za-z_]\w{0,99}\+?=)|((?:\\[^]|[^\s;&|()<>"'`$\\]){1,400})|[ \t]+|<<<|[^]/y;

// Strings, substitutions in them and here-documents span lines, so the whole text is read, and cut into lines then.
function bash(text, tools) {
  const known = new Set(tools.map((name) => name.replace(/[-.\s]/g, "_").replace(/\W/g, "")).map((name) => (WORDS.has(name) ? `${name}_tool` : name)));
  const rows = [[]];
  const open = [];
  const heredocs = [];
  const closings = linesByText(text);
  let at = 0;
  let isCommand = true;
  // Where the line that ends a here-document ends; 0 if there is none.
  const closing = ([, dash, ...names]) => {
    const line = closings.get(dash + names.find((one) => one !== undefined));
    while (line?.ends[line.next] < at) line.next += 1;
    return line?.ends[line.next] ?? 0;
  };
  const read = (pattern) => { pattern.lastIndex = at; return pattern.exec(text); };
  const put = (kind, size) => {
    text.slice(at, at + size).split("\n").forEach((part, index) => {
      if (index) rows.push([]);
      if (part) rows.at(-1).push(kind ? h("span", { class: kind }, part) : part);
    });
    at += size;
  };
  const substitution = () => {
    if (text.startsWith("$(", at)) open.push(")");
    else if (open.at(-1) === "`") open.pop();
    else open.push("`");
    isCommand = true;
    put("tv", text[at] === "$" ? 2 : 1);
  };
  while (at < text.length) {
    const sign = text[at];
    const variable = sign === "$" ? read(VARIABLE) : null;
    if (text.startsWith("$(", at) || sign === "`") substitution();
    else if (variable) { isCommand = false; put("tv", variable[0].length); }
    else if (sign === '"') {
      if (open.at(-1) === '"') open.pop();
      else open.push('"');
      isCommand = false;
      put("ts", 1);
    } else if (open.at(-1) === '"') put("ts", read(IN_STRING)[0].length);
    else {
      const heredoc = sign === "<" ? read(HEREDOC) : null;
      const [token, comment, string, assignment, word] = read(BARE);
      if (heredoc && closing(heredoc)) { heredocs.push(heredoc); put("ts", heredoc[0].length); }
      else if (comment) put("tc", token.length);
      else if (string) { isCommand = false; put("ts", token.length); }
      else if (assignment && isCommand) { put("tv", token.length - 1); put("", 1); }
      else if (word || assignment) {
        const isWord = WORDS.has(token) && (isCommand || token === "in" || token === "]]");
        put(isWord ? "tk" : known.has(token) ? "tt" : "", token.length);
        isCommand = isWord && OPENS_COMMAND.has(token);
      } else {
        if (sign === "(") open.push("(");
        const closed = sign === ")" && "()".includes(open.at(-1)) ? open.pop() : "";
        if (/[\n;&|()]/.test(sign)) isCommand = closed !== ")";
        put(closed === ")" ? "tv" : "", token.length);
        if (sign === "\n") for (const found of heredocs.splice(0)) put("ts", Math.max(closing(found) - at, 0));
      }
    }
  }
  return rows;
}

// Where each short line ends; after a dash, without the tabs before it.
function linesByText(text) {
  const found = new Map();
  let end = -1;
  for (const line of text.split("\n")) {
    end += line.length + 1;
    if (line.length > 100) continue;
    for (const key of [line, `-${line.replace(/^\t+/, "")}`]) {
      if (!found.has(key)) found.set(key, { ends: [], next: 0 });
      found.get(key).ends.push(end);
    }
  }
  return found;
}
