"""Type-checker questions about a program, and what the diagnostics certainly mean for its tool calls.

The checker is not here: it is given `Question.text`, which never runs, and says what it found by line and column.
Two things are taken from it and nothing else: an argument of a type that does not fit the tool's schema, and an
attribute that no reply has. Even these count only where no annotation, alias or handler could make them wrong.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from toolfold.models import Json, Media, Problem, ToolSpec
from toolfold.program.parse import problem_at, problem_at_byte
from toolfold.program.reader import ProgramReader
from toolfold.program.rules.arguments import WORDS, InputSignature, accepts, mismatch
from toolfold.prompts.python_stubs import identifier
from toolfold_guest.shared.call_style import ASYNC_PREFIX
from toolfold_guest.shared.reserved_names import RESERVED

# ----------------------------------------------------------------------------------------------------
# Where a type checker's inference about a program can be relied on, although Python holds nobody to types.

_MUTATORS: Final = frozenset(
    {
        "append",
        "extend",
        "insert",
        "update",
        "setdefault",
        "add",
        "appendleft",
        "extendleft",
        "__setitem__",
        "put",
        "heappush",
        "heapreplace",
        "heappushpop",
        "insort",
        "insort_left",
        "insort_right",
        "setattr",
        "setitem",
    }
)
"""Methods and functions that change a container or object."""
_DEEPEST: Final = 20


class Certainty:
    """Facts that a type checker cannot follow, and the expressions whose type is certain despite them."""

    def __init__(self, tree: ast.Module) -> None:
        self.guarded_lines: set[int] = set()
        """Where an error may be expected: in a `try` with handlers, or in a `with`, which may suppress it."""
        self.asks_for_attributes = False
        """It tests for attributes before it uses them."""
        self._puts_things_in = False
        """Contents of a list, a dict or an object may have been changed through another name."""
        self._bindings: dict[str, list[ast.expr | None]] = {}
        """The values of each name; `None` for one that cannot be seen."""
        for node in ast.walk(tree):
            self._look_at(node)

    def is_sure_of(self, value: ast.expr, depth: int = 0) -> bool:
        """Whether the type that was inferred for an expression is the type that it has."""
        if not self._puts_things_in:
            return True
        if depth > _DEEPEST:
            return False
        if isinstance(value, ast.Await):
            return isinstance(value.value, ast.Call) and isinstance(value.value.func, ast.Name)
        for node in ast.walk(value):
            if isinstance(node, ast.Subscript | ast.Attribute | ast.Starred | ast.comprehension | ast.Await):
                return False
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                for bound in self._bindings.get(node.id, ()):
                    if bound is None or not self.is_sure_of(bound, depth + 1):
                        return False
        return True

    def _look_at(self, node: ast.AST) -> None:
        match node:
            case ast.Try(handlers=[_, *_]) | ast.TryStar() | ast.With() | ast.AsyncWith():
                for statement in node.body:
                    last_line = statement.end_lineno or statement.lineno
                    self.guarded_lines.update(range(statement.lineno, last_line + 1))
            case ast.Name(id="hasattr" | "getattr" | "isinstance"):
                self.asks_for_attributes = True
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                self._puts_things_in = True
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _MUTATORS:
                self._puts_things_in = True
            case ast.AugAssign(value=value) if not isinstance(value, ast.Constant):
                self._puts_things_in = True  # `rows += more` changes the list that another name has, too
                self._bind(node)
            case _:
                self._bind(node)

    def _bind(self, node: ast.AST) -> None:
        """The values of names: one that is assigned, one of a `range`, or one that cannot be seen."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._add(target, value if isinstance(target, ast.Name) else None)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                self._add(target, value)
            case ast.NamedExpr(target=target, value=value):
                self._add(target, value)
            case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                self._add(target, source if _is_range(source) else None)
            case ast.AsyncFor(target=target):
                self._add(target, None)
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                self._bindings.setdefault(name, []).append(None)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                self._bindings.setdefault(name, []).append(None)

    def _add(self, target: ast.expr, value: ast.expr | None) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._bindings.setdefault(node.id, []).append(value)


def _is_range(source: ast.expr) -> bool:
    return isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "range"


MAX_CHARACTERS: Final = 32 * 1024
"""Longest text that is worth the time."""

# The first line is wrong on purpose, and always reached: a text that fails the check does not run.
_NEVER_RUNS: Final = "__toolfold__: int = ''\n"
_TOOL: Final = re.compile(r"`__(?:tool|sync)_(\d+)__` is incorrect: Expected `.*`, found `(.*)`", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r"Object of type `__Reply__` has no attribute `(\w+)`")
_TYPES: Final = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None",
    "object": "dict[__Any__, __Any__]",
    "array": "list[__Any__] | tuple[__Any__, ...] | set[__Any__] | frozenset[__Any__]",
}  # fmt: skip
# What a value of a type may be as JSON; a `bool` is an `int` too, and `5.0` an integer.
_SHAPES: Final = {
    "str": ("string",), "LiteralString": ("string",), "int": ("integer", "boolean"), "bool": ("boolean",),
    "float": ("number", "integer"), "None": ("null",), "list": ("array",), "tuple": ("array",), "set": ("array",),
    "dict": ("object",),
}  # fmt: skip
_EXAMPLES: Final[Mapping[str, ast.expr]] = {
    "string": ast.Constant(""), "integer": ast.Constant(0), "number": ast.Constant(0.5), "boolean": ast.Constant(True),
    "null": ast.Constant(None), "array": ast.List([]), "object": ast.Dict([], []),
}  # fmt: skip
_READ_AS: Final = {"string": ("integer", "number", "boolean"), "number": ("boolean",), "integer": ("boolean",)}
"""Types that a lenient tool may convert a value to."""
_NAMES: Final = sorted(
    {name for kind in (str, int, float, bool, bytes, dict, list, type(None)) for name in dir(kind)}
    | {"kind", "mime", "data", "uri", "name", *dir(Media)}
)
"""Attributes that some reply has; replies are JSON values, bytes and media."""
_LIES: Final = frozenset({"cast", "TYPE_CHECKING", "version_info", "platform"})
"""Words by which a program tells a type checker something else than what happens."""
_PUBLIC_NAMES: Final = [name for name in _NAMES if not name.startswith("_")]
_REPLY: Final = "".join(
    (
        "from typing import Any as __Any__\nclass __Reply__:\n",
        *(f"    {name}: __Any__\n" for name in _PUBLIC_NAMES),
        "    def __getitem__(self, key: __Any__, /) -> '__Reply__': ...\n",
        "    def __iter__(self) -> '__Replies__': ...\n",
        "class __Replies__:\n    def __iter__(self) -> '__Replies__': ...\n    def __next__(self) -> __Reply__: ...\n",
    )
)


class Diagnostic(NamedTuple):
    """A type checker's message; lines and columns count from 1, columns in characters."""

    code: str
    message: str
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to the checker, and the meaning of its answer."""

    text: str
    _program: str
    _tree: ast.Module
    _tools: Sequence[ToolSpec]
    _first_line: int

    def problem(self, diagnostics: Iterable[Diagnostic]) -> Problem | None:
        """The first thing that is certainly wrong."""
        facts = Certainty(self._tree)
        problems = [problem for diagnostic in diagnostics if (problem := self._meaning(diagnostic, facts)) is not None]
        return min(problems, key=lambda problem: (problem.line or 0, problem.column or 0), default=None)

    def _meaning(self, diagnostic: Diagnostic, facts: Certainty) -> Problem | None:
        line = diagnostic.line - self._first_line
        if line < 1 or line in facts.guarded_lines:
            return None
        if diagnostic.code == "unresolved-attribute" and (attribute := _ATTRIBUTE.fullmatch(diagnostic.message)):
            return self._no_attribute(attribute[1], line, diagnostic.column, facts)
        if diagnostic.code == "invalid-argument-type" and (wrong := _TOOL.search(diagnostic.message)):
            return self._wrong_type(self._tools[int(wrong[1])], wrong[2], line, diagnostic.column, facts)
        return None

    def _no_attribute(self, name: str, line: int, column: int, facts: Certainty) -> Problem | None:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute) and node.attr == name and self._position(node) == (line, column):
                if facts.asks_for_attributes or not facts.is_sure_of(node.value):
                    return None
                near = difflib.get_close_matches(name, _PUBLIC_NAMES, 1, 0.8)
                rest = f"did you mean {near[0]!r}?" if near else f"a reply is plain data: write [{name!r}]"
                end = node.end_lineno or line
                byte = (node.end_col_offset or 0) - len(name.encode())
                return problem_at_byte(
                    self._program, "wrong_type", f"a reply has no attribute {name!r}; {rest}", end, byte
                )
        return None

    def _wrong_type(self, tool: ToolSpec, type_text: str, line: int, column: int, facts: Certainty) -> Problem | None:
        signature, shapes = InputSignature(tool), _shapes(type_text)
        argument, value = self._argument_at(signature, line, column, may_be_all="object" not in shapes)
        if argument is None or value is None or not shapes or not signature.is_certain or not facts.is_sure_of(value):
            return None
        schema = signature.properties[argument]
        # What a lenient tool reads from a constant the check has judged; of other values only the type is known.
        read_as = [
            json_type
            for shape in shapes
            for json_type in (shape, *(_READ_AS.get(shape, ()) if tool.is_lenient else ()))
        ]
        if any(accepts(schema, shape, signature.root) for shape in read_as):
            return None
        wrong = mismatch(_EXAMPLES[shapes[0]], schema, signature.root)
        if wrong is None:
            return None
        message = (
            f"{tool.name!r} argument {signature.keyword_of(argument)!r} must be {wrong.expected}, "
            f"got {_describe_type(type_text, shapes)}"
        )
        return problem_at(self._program, "wrong_type", message, line, column)

    def _argument_at(
        self, signature: InputSignature, line: int, column: int, *, may_be_all: bool
    ) -> tuple[str | None, ast.expr | None]:
        """The argument that stands at a place and its value, if there is exactly one way to read the call."""
        for call in (node for node in ast.walk(self._tree) if isinstance(node, ast.Call)):
            for index, value in enumerate(call.args):
                if self._position(value) == (line, column):
                    is_starred = any(isinstance(argument, ast.Starred) for argument in call.args[: index + 1])
                    is_alone = len(call.args) == 1 and not call.keywords
                    if is_starred or index >= len(signature.order) or (is_alone and not may_be_all):
                        return None, None
                    return signature.order[index], value
            for keyword in call.keywords:
                if keyword.arg is not None and self._position(keyword) == (line, column):
                    return signature.name_of(keyword.arg), keyword.value
        return None, None

    def _position(self, node: ast.expr | ast.keyword) -> tuple[int, int]:
        source = self._program.split("\n")[node.lineno - 1].encode()
        return node.lineno, len(source[: node.col_offset].decode(errors="replace")) + 1


def question(text: str, tools: Sequence[ToolSpec], *, known_names: Collection[str] = ()) -> Question | None:
    """The question about a program that the check let through; `None` if there is nothing to learn."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MAX_CHARACTERS:
        return None
    words = set(re.findall(r"\w+", text))
    words |= {word.removeprefix(ASYNC_PREFIX) for word in words}
    used_tools = [tool for tool in tools if not words.isdisjoint((tool.python_name, *tool.aliases))]
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # a top-level `return`, say: valid here, and not there
    reader = ProgramReader(tree)
    if not used_tools or not words.isdisjoint(_LIES) or reader.names.is_dynamic:
        return None
    bound = _bound_names(reader).union(known_names)
    head = _NEVER_RUNS + _REPLY + "".join(_stub(number, tool) for number, tool in enumerate(used_tools))
    head += "".join(f"{name} = __tool_{number}__\n" for name, number in _names(tree, used_tools, bound).items())
    program_text = _without_annotations(_without_imports(text, tree), tree)
    if "tools" in words and "tools" not in bound:
        program_text = _with_short_names(program_text, tree, used_tools)
    return Question(
        text=head + program_text,
        _program=text,
        _tree=tree,
        _tools=used_tools,
        _first_line=head.count("\n"),
    )


def _stub(number: int, tool: ToolSpec) -> str:
    """The tool as a coroutine function and as a function; what is not certain of its arguments is `Any`."""
    signature = InputSignature(tool)
    parts = ["*__args__: __Any__", "**__more__: __Any__"]
    names = [identifier(name) for name in signature.order]
    if signature.is_certain and len(set(names)) == len(names):
        parts = [
            f"{identifier(name)}: {_type(schema, signature.root)} = ..."
            for name, schema in signature.properties.items()
        ]
        parts.append("**__more__: __Any__")
    arguments = ", ".join(parts)
    return (
        f"async def __tool_{number}__({arguments}) -> __Reply__: ...\n"
        f"def __sync_{number}__({arguments}) -> __Reply__: ...\n"
        f"_t{number}_, _s{number}_ = __tool_{number}__, __sync_{number}__\n"
    )


def _type(schema: Json, root: Mapping[str, Json]) -> str:
    fitting = [shape for shape in _TYPES if accepts(schema, shape, root)]
    return " | ".join(_TYPES[shape] for shape in fitting) if 0 < len(fitting) < len(_TYPES) else "__Any__"


def _names(tree: ast.Module, tools: Sequence[ToolSpec], bound: set[str]) -> dict[str, int]:
    """Tool numbers by the program's names for them, where nothing else has the name."""
    numbers = {name: number for number, tool in enumerate(tools) for name in (tool.python_name, *tool.aliases)}
    names = {name: number for name, number in numbers.items() if name not in bound and name not in RESERVED}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_tools(node.module or ""):
            for alias in node.names:
                own = alias.asname or alias.name
                if alias.name in numbers and own not in bound:
                    names.setdefault(own, numbers[alias.name])
    return names


def _with_short_names(text: str, tree: ast.Module, tools: Sequence[ToolSpec]) -> str:
    """`_s0_` for `tools.name` and `_t0_` for `tools.async_name`, with blanks behind it: nothing else moves."""
    names: dict[str, str] = {}
    for number, tool in enumerate(tools):
        for name in (tool.python_name, *tool.aliases):
            for module in ("tools", f"tools.{tool.domain}") if tool.domain else ("tools",):
                names |= {f"{module}.{name}": f"_s{number}_", f"{module}.{ASYNC_PREFIX}{name}": f"_t{number}_"}
    lines = [line.encode() for line in text.split("\n")]
    for node in ast.walk(tree):
        dotted = _dotted(node)
        if dotted and isinstance(node, ast.Attribute) and (short := names.get(dotted)):
            line, start, end = lines[node.lineno - 1], node.col_offset, node.end_col_offset or 0
            # Up to Python 3.11 an expression in an f-string may not be where it says it is.
            if line[start:end] == dotted.encode() and len(short) <= end - start:
                lines[node.lineno - 1] = line[:start] + short.encode().ljust(end - start) + line[end:]
    return b"\n".join(lines).decode()


def _bound_names(reader: ProgramReader) -> set[str]:
    """Every name that the program binds anywhere, but for imports of tools."""
    bindings = {binding for scope in reader.root.scopes for binding in scope.bound.items()}
    return {
        name
        for name, meaning in bindings
        if (name, meaning) != ("tools", "tools") and not (":" in meaning and _is_tools(meaning.partition(":")[0]))
    }


def _without_imports(text: str, tree: ast.Module) -> str:
    """Imports of tools as `pass`: what they bind is in the head. Nothing else moves."""
    lines = text.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            is_replaced = node.module == "__future__" or _is_tools(node.module or "")
        elif isinstance(node, ast.Import):
            is_replaced = all(_is_tools(alias.name) and alias.asname is None for alias in node.names)
        else:
            continue
        if not is_replaced:
            continue
        last = node.end_lineno or node.lineno
        tail = lines[last - 1].encode()[node.end_col_offset or 0 :].decode()
        width = len(lines[last - 1]) - len(tail) - (node.col_offset if last == node.lineno else 0)
        start = lines[node.lineno - 1].encode()[: node.col_offset].decode()
        lines[node.lineno - 1] = start + "pass"
        if last == node.lineno:
            lines[last - 1] = start + "pass".ljust(width) + tail
            continue
        for line in range(node.lineno, last - 1):
            lines[line] = ""
        # A statement after the last bracket would need a line of its own.
        lines[last - 1] = "" if not tail.strip(" ;") else start + tail.lstrip(" ;")
    return "\n".join(lines)


def _without_annotations(text: str, tree: ast.Module) -> str:
    """Blanks instead of annotations: Python does not hold a program to them, a type checker does."""
    lines = [line.encode() for line in text.split("\n")]
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as note):
                start, skipped = (node.lineno, node.col_offset + len(node.arg.encode())), b":"
            case ast.AnnAssign(annotation=note, target=target):
                start, skipped = (target.end_lineno or 0, target.end_col_offset or 0), b":"
            case ast.FunctionDef(returns=ast.expr() as note) | ast.AsyncFunctionDef(returns=ast.expr() as note):
                start, skipped = (note.lineno, lines[note.lineno - 1].rfind(b"->", 0, note.col_offset)), b"->"
            case _:
                continue
        end = (note.end_lineno or 0, note.end_col_offset or 0)
        is_plain = start[0] == end[0] and start[1] >= 0 and lines[start[0] - 1][start[1] :].lstrip().startswith(skipped)
        if is_plain:
            line = lines[start[0] - 1]
            lines[start[0] - 1] = line[: start[1]] + b" " * (end[1] - start[1]) + line[end[1] :]
        else:
            return _NEVER_RUNS  # written in a way that is not worth following: ask nothing
    return b"\n".join(lines).decode()


def _shapes(type_text: str) -> tuple[str, ...]:
    """The JSON types that values of a type may have; none if one of them is not known."""
    names: list[str] = []
    for part in _union(type_text):
        literal = re.fullmatch(r"Literal\[(.*)\]", part, re.DOTALL)
        try:
            values = () if literal is None else ast.literal_eval(f"({literal[1]},)")
        except (SyntaxError, ValueError):
            return ()
        names += ["None" if value is None else type(value).__name__ for value in values] or [part.partition("[")[0]]
    shapes = [_SHAPES.get(name, ()) for name in names]
    return tuple(dict.fromkeys(shape for kind in shapes for shape in kind)) if all(shapes) else ()


def _union(text: str) -> list[str]:
    """`a[b | c] | d` as `a[b | c]` and `d`."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        depth += (letter in "[(") - (letter in "])") if not quote else 0
        if letter == "|" and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _describe_type(type_text: str, shapes: Sequence[str]) -> str:
    literal = re.fullmatch(r"Literal\[([^\[\]|,]{1,40})\]", type_text)
    if literal is not None:
        return repr(ast.literal_eval(literal[1]))
    # An `int` may also be a boolean, a `float` an integer: the first is what the program's author thinks of.
    return WORDS[shapes[0]]


def _dotted(node: ast.AST) -> str:
    """`tools.name` or `tools.domain.name`; empty for anything else."""
    match node:
        case ast.Attribute(value=ast.Name(id="tools"), attr=name):
            return f"tools.{name}"
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="tools"), attr=domain), attr=name):
            return f"tools.{domain}.{name}"
    return ""


def _is_tools(module: str) -> bool:
    return module == "tools" or module.startswith("tools.")
