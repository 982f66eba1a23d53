"""Static check of bash programs: misspelt tools, and literal arguments that a tool cannot take.

Bash itself judges the syntax, in the guest. Here the commands of a program are read with a grammar that knows less, and
whatever it does not know ends the check without a word. A call is judged only where it certainly runs and nothing
handles its failure: not in branches, functions and conditions, beside `||`, where its errors go elsewhere, after an
`exit`, or in a program that looks at `$?`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from toolfold.models import Problem, ProblemKind, ToolSpec
from toolfold.program.known_names import nearest
from toolfold.program.parse import position_of, problem_at
from toolfold.program.rules.arguments import IDEMPOTENCY_KEY, InputSignature, dict_faults
from toolfold_guest.shared.bash_functions import BUILTINS, COMMANDS

FENCE: Final = re.compile(r"\s*```(?:bash|sh|shell)?[ \t]*\n((?:(?!```)[^\n]*\n)*)```\s*")
"""A program in one Markdown fence."""
_LONGEST_TEXT: Final = 32 * 1024
_MOST_GUESSES: Final = 16
_HANDLED: Final = re.compile(r"\$\{?\?|PIPESTATUS|command_not_found_handle|\r")
_WORD_END: Final = r"(?=[\s;&|<>()]|$)"
_LIST_END: Final = rf"\)|;;&?|;&|(?:then|elif|else|fi|do|done|esac|\}}){_WORD_END}"
_COMPOUND: Final = rf"(?:\{{|if|while|until|for|case|function|\[\[|select|coproc){_WORD_END}"
_PLAIN: Final = r"[^\s;&|<>()'\"\\$`]+"
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
_REDIRECTION: Final = re.compile(r"(?:(\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|>>|>\||>&|<|>)|(&>>|&>))(?!\()")
_INSIDE: Final = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\))*+"
_ARITHMETIC: Final = rf"\(\({_INSIDE}\)\)"
"""`((` that ends with `))`, else it is a subshell in a subshell."""
_UNSEEN: Final = {
    "eval": "", "source": "", ".": "", "alias": "", "enable": "", "hash": "", "trap": r"ERR|DEBUG|RETURN|\$\w+$",
    "set": r"(?:^|\s)-\w*n|noexec", "command": r"^(?:eval|\.|source)\s", "builtin": r"^(?:eval|\.|source)\s",
}  # fmt: skip
"""Commands after which a name may mean anything, or a failure nothing; with such arguments."""


class _Unsure(Exception):
    """The text has something that is not read here."""


class _Word(NamedTuple):
    start: int
    raw: str
    value: str | None
    """What bash makes of it; `None` where only a run can tell."""
    fields: int
    """Arguments that it certainly becomes, at least."""


class _BashFault(NamedTuple):
    start: int
    tool: str
    """As the program spells it; empty for a `wait`, which is kept to see whether its failure is handled."""
    kind: ProblemKind = "arguments"
    message: str = ""
    is_job: bool = False


class _JsonSignature(InputSignature):
    """Arguments by their own names: JSON does not know Python's spelling of them."""

    def keyword_of(self, name: str) -> str:
        return name


def check_bash(text: str, tools: Mapping[str, ToolSpec]) -> Problem | None:
    """The first mistake that certainly matters; `tools` are by the names of their functions."""
    if len(text) > _LONGEST_TEXT or _HANDLED.search(text):
        return None
    reader = _Reader(text, tools)
    try:
        reader.read_list("")
    except (_Unsure, RecursionError, SyntaxError, MemoryError):  # the last two of deep literals
        return None
    handles_jobs = reader.waits > sum(not fault.tool for fault in reader.faults)
    for fault in reader.faults:
        if fault.tool and fault.tool not in reader.functions and not (fault.is_job and handles_jobs):
            return problem_at(text, fault.kind, fault.message, *position_of(text, fault.start))
    return None


class _Reader:
    """Reads a program from its start to its end, and collects faults of its calls."""

    def __init__(self, text: str, tools: Mapping[str, ToolSpec]) -> None:
        self._text, self._tools, self._at = text, tools, 0
        self._heredocs: list[str] = []
        """Patterns of the lines that end them."""
        self._doubt = 0
        """Around what is read now: branches, bodies and the like, which may not run."""
        self._is_over = self._has_exited = False
        self._guesses = 0 if re.search(r"(?<![\w${])PATH\b", text) else _MOST_GUESSES
        self.functions: set[str] = set()
        self.faults: list[_BashFault] = []
        self.waits = 0

    # commands

    def read_list(self, *ends: str, is_judged: bool = True) -> str:
        """Read commands up to one of these words or signs, which is returned; empty is the end of the text."""
        first, self._doubt = len(self.faults), self._doubt + (not is_judged)
        while not (end := self._take(_LIST_END, newlines=True)) and self._at < len(self._text):
            self._and_or()
            self._take(r";(?![;&])")
        if end not in ends or (end == ")" and self._heredocs):
            raise _Unsure
        if not is_judged:
            self._doubt -= 1
            del self.faults[first:]
        return end

    def _and_or(self) -> None:
        first, doubt, is_handled, operator = len(self.faults), self._doubt, False, "&&"
        while operator:
            is_handled |= "!" in self._take(r"(?:(?:!|time(?:[ \t]+-p)?)\s+)*", newlines=True)
            mark = len(self.faults)
            self._command()
            if self._doubt > doubt:
                del self.faults[mark:]
            operator = self._take(r"&&|\|\||\|&|\|")
            is_handled |= operator in ("||", "|&")
            self._doubt = max(self._doubt, doubt + (operator in ("&&", "||")))
        self._doubt = doubt
        if is_handled:
            del self.faults[first:]
        if self._take(r"&(?!>)"):
            self.faults[first:] = [fault._replace(is_job=True) for fault in self.faults[first:]]
        elif self._at < len(self._text) and self._text[self._at] not in ";)\n":
            raise _Unsure

    def _command(self) -> None:
        first = len(self.faults)
        if not self._take(_ARITHMETIC):
            if self._take(r"\("):
                self.read_list(")")
            elif keyword := self._take(_COMPOUND):
                self._compound(keyword)
            else:
                self._simple()
                return
        while self._skip() and (match := _REDIRECTION.match(self._text, self._at)):
            if self._redirect(match):
                del self.faults[first:]

    def _compound(self, keyword: str) -> None:
        end = "fi" if keyword == "if" else "done"
        if keyword == "{":
            self.read_list("}")
        elif keyword in ("if", "while", "until"):
            while self.read_list("then", "elif", "else", "do", end, is_judged=False) != end:
                pass
        elif keyword == "for":
            self.read_list("done", is_judged=self._for_words())
        elif keyword == "case":
            self._word()
            self._take(f"in{_WORD_END}", newlines=True, is_needed=True)
            while not self._take(f"esac{_WORD_END}", newlines=True):
                self._take(r"\(")
                self._word()
                while self._take(r"\|"):
                    self._word()
                self._take(r"\)", is_needed=True)
                if self.read_list(";;", ";&", ";;&", "esac", is_judged=False) == "esac":
                    break
        elif keyword == "function":
            self._function(self._word().value)
        elif keyword == "[[":
            while self._take(r"[()<>|&;]+", newlines=True) or self._word().raw != "]]":
                pass
        else:
            raise _Unsure
        if keyword in ("while", "until", "for"):
            self._is_over = self._has_exited

    def _for_words(self) -> bool:
        """Read up to the body of a `for`; whether that runs at least once."""
        is_certain = False
        if not self._take(_ARITHMETIC):
            self._word()
            if self._take(f"in{_WORD_END}", newlines=True):
                while self._skip() not in (";", "\n", ""):
                    is_certain |= self._word().fields > 0
        self._take(";")
        self._take(f"do{_WORD_END}", newlines=True, is_needed=True)
        return is_certain

    def _function(self, name: str | None) -> None:
        self._take(r"\(\s*\)")
        self.functions.add(name or "")
        mark, self._doubt = len(self.faults), self._doubt + 1
        self._skip(newlines=True)
        self._command()
        self._doubt -= 1
        del self.faults[mark:]
        self._is_over = self._has_exited

    def _simple(self) -> None:
        first, start, hides_errors = len(self.faults), self._at, False
        words: list[_Word] = []
        while (sign := self._skip()) and sign not in "\n;|)":
            if match := _REDIRECTION.match(self._text, self._at):
                hides_errors |= self._redirect(match)
            elif sign == "&":
                break
            elif sign == "(" and len(words) == 1:
                self._function(words[0].value)
                return
            else:
                words.append(self._word())
        if self._at == start:
            raise _Unsure
        while words and _ASSIGNMENT.match(words[0].raw):
            del words[0]
        if hides_errors:
            del self.faults[first:]
        if words and words[0].value is not None:
            self._judge(words[0], words[0].value, words[1:], hides_errors)

    # words

    def _word(self) -> _Word:
        self._skip()
        start, parts, is_certain, fields = self._at, [], True, 0
        while self._at < len(self._text):
            begin, part = self._at, None
            if self._read(r"[<>]\("):
                self.read_list(")")
            elif self._text[begin] == "(" and _ASSIGNMENT.fullmatch(self._text, start, begin):
                self._at += 1
                while not self._take(r"\)", newlines=True):
                    self._word()
            elif self._text[begin] in " \t\n;&|<>()":
                break
            else:
                part = self._part(_PLAIN)
            raw = self._text[begin : self._at]
            is_certain &= part is not None and not (part == raw and re.search(r"[*?\[~]|\{.*(?:,|\.\.)", raw))
            fields |= bool(part) or (raw[0] in "'\"" and "@" not in raw)
            parts.append(part or "")
        if self._at == start:
            raise _Unsure
        return _Word(start, self._text[start : self._at], "".join(parts) if is_certain else None, int(fields))

    def _part(self, plain: str, *, in_quotes: bool = False) -> str | None:
        """Read a quoted text, an expansion or plain characters: what they become, if that is certain."""
        if escape := self._read(r"\\[\s\S]"):
            return "" if escape == "\\\n" else escape if in_quotes and escape[1] not in '$`"\\' else escape[1]
        if not in_quotes and (text := self._read(r"'[^']*'")):
            return text[1:-1]
        if self._read('"' if in_quotes else r'\$?"'):
            parts = []
            while not self._read('"'):
                parts.append(self._part(r'[^"\\$`]+', in_quotes=True))
            texts = [part for part in parts if part is not None]
            return "".join(texts) if len(texts) == len(parts) else None
        if self._read(rf"`(?:\\[\s\S]|[^`\\])*+`|\${_ARITHMETIC}|\$[A-Za-z_]\w*|\$[0-9@*#?$!-]"):
            return None
        if not in_quotes and self._read(r"\$'(?:\\[\s\S]|[^'\\])*+'"):
            return None
        if self._read(r"\$\("):
            self.read_list(")")
            return None
        if self._read(r"\$\{"):
            mark = len(self.faults)
            while not self._read(r"\}"):
                self._part(r"[^'\"\\$`}]+", in_quotes=in_quotes)
            del self.faults[mark:]  # of an alternative that may not be needed
            return None
        return self._read(rf"\$|{plain}", is_needed=True)

    def _redirect(self, match: re.Match[str]) -> bool:
        """Read a redirection; whether it takes error messages away."""
        self._at = match.end()
        number, operator, target = match[1], match[2] or match[3], self._word()
        if operator in ("<<", "<<-"):
            if target.value is None:
                raise _Unsure
            tabs = r"\t*" if operator == "<<-" else ""
            self._heredocs.append(rf"(?m)^{tabs}{re.escape(target.value)}$")
        takes_both = operator == ">&" and not number and not re.fullmatch(r"\d+-?|-", target.raw)
        return number == "2" or operator.startswith("&") or takes_both

    # text

    def _skip(self, *, newlines: bool = False) -> str:
        """Read blanks and comments; what follows them."""
        self._read(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")
        while newlines and self._read(r"\n"):
            for pattern in self._heredocs:
                match = re.compile(pattern).search(self._text, self._at)
                self._at = min(match.end() + 1, len(self._text)) if match else len(self._text)
            self._heredocs.clear()
            self._read(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")
        return self._text[self._at : self._at + 1]

    def _take(self, pattern: str, *, newlines: bool = False, is_needed: bool = False) -> str:
        self._skip(newlines=newlines)
        return self._read(pattern, is_needed=is_needed)

    def _read(self, pattern: str, *, is_needed: bool = False) -> str:
        match = re.compile(pattern).match(self._text, self._at)
        if match is None and is_needed:
            raise _Unsure
        self._at = match.end() if match else self._at
        return match[0] if match else ""

    # calls

    def _judge(self, word: _Word, name: str, arguments: Sequence[_Word], hides_errors: bool) -> None:
        rest = " ".join(argument.raw for argument in arguments)
        if name in _UNSEEN and re.search(_UNSEEN[name], rest):
            raise _Unsure
        if name in ("break", "continue", "return"):
            self._is_over = True
        elif name == "unset":
            self.functions.update(rest.split())
        elif name in ("kill", "exit", "exec"):
            goes_on = not rest and not hides_errors if name == "exec" else self._doubt and re.fullmatch("[1-9]+", rest)
            self._has_exited |= not goes_on
            self._is_over |= self._has_exited
        elif name == "wait":
            self.waits += 1
            self.faults.append(_BashFault(word.start, ""))
        elif not self._is_over and not hides_errors:
            self.faults += (_BashFault(word.start, name, *fault) for fault in self._call_faults(name, arguments))

    def _call_faults(self, name: str, arguments: Sequence[_Word]) -> Iterator[tuple[ProblemKind, str]]:
        tool = self._tools.get(name)
        if tool is not None:
            yield from _argument_faults(name, tool, arguments)
            return
        # A name that resembles a tool is one if it is called as one.
        is_call = re.match(r"(?:\$?['\"])?\{", arguments[0].raw) if arguments else "_" in name
        if is_call and self._guesses and name not in BUILTINS and name not in COMMANDS and "/" not in name:
            self._guesses -= 1
            near = nearest(name, self._tools)
            if near is not None:
                yield "unknown_tool", f"no tool {name!r}; did you mean {near!r}?"


def _argument_faults(name: str, tool: ToolSpec, words: Sequence[_Word]) -> Iterator[tuple[ProblemKind, str]]:
    """What is certainly wrong with the words behind a tool's name."""
    signature = _JsonSignature(tool)
    keys = ", ".join(f'"{key}": ...' for key in (signature.required or signature.order[:1])[:4])
    sample, text, arguments = f"{name} '{{{keys}}}'", words[0].value if words else "", None
    if words and re.match(r'"?\{"[A-Za-z_][\w-]*":', words[0].raw):
        fault = f"bash removes the quotes of {words[0].raw[:40]}"
    elif sum(word.fields for word in words) > 1:
        fault = f"got {len(words)} arguments"
    elif text is None or len(words) > 1:
        return
    else:
        try:
            arguments = json.loads(text) if text.strip() else {}
            fault = "" if isinstance(arguments, dict) else f"got {text[:40]}"
        except ValueError as error:
            fault = f"not valid JSON: {error}" if text[:1] == "{" else f"{text[:40]!r} is not JSON"
    if fault:
        yield "arguments", f"{name!r} takes one JSON object in single quotes, as in {sample}; {fault}"
    elif signature.is_certain and isinstance(arguments, dict):
        if signature.takes_key:
            arguments.pop(IDEMPOTENCY_KEY, None)
        whole = ast.parse(repr(arguments), mode="eval").body
        assert isinstance(whole, ast.Dict)
        for kind, message, *_ in dict_faults(whole, whole, name, signature):
            yield kind, message if words else f"{message}; write {sample}"
