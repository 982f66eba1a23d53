"""Predefined names of a program, the index of its tools by every name, and the tools behind a line that failed."""

from __future__ import annotations

import ast
import builtins
import difflib
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from toolfold.models import Limits, Problem, ToolSpec
from toolfold.program.parse import parse
from toolfold.program.reader import ProgramReader
from toolfold.program.rules.arguments import InputSignature
from toolfold.program.syntax_facts import Function
from toolfold_guest.shared import reserved_names as shared_names
from toolfold_guest.shared.call_style import ASYNC_PREFIX, awaited_values
from toolfold_guest.shared.reserved_names import NOTEBOOK_NAMES, RESERVED

PRESET_NAMES: Final = (
    "json", "re", "datetime", "asyncio", "math", "random", "time", "collections", "itertools", "functools",
    "statistics", "os", "sys", "base64", "hashlib", "uuid", "textwrap", "string", "decimal", "csv", "io", "pathlib",
    "typing", "dataclasses", "np", "pd", "plt", "numpy", "pandas", "matplotlib", "scipy", "sklearn",
)  # fmt: skip
"""Modules that the guest has ready without an import."""

DATA_NAMES: Final = frozenset({"np", "pd", "plt", "numpy", "pandas", "matplotlib"})
"""Presets that only the library set `data` has loaded."""

SCIENCE_NAMES: Final = frozenset({"scipy", "sklearn"})
"""Presets that only the library set `science` has loaded, on top of those of `data`."""

DATA_MODULES: Final = frozenset({"numpy", "pandas", "matplotlib", "plotly"})
"""Importing one of these is quick where the library set `data` is loaded."""

SCIENCE_MODULES: Final = frozenset({"scipy", "sklearn", "seaborn", "statsmodels"})
"""Importing one of these is quick in the library set `science` only."""

# The guest's, for the interfaces, which know nothing of the guest.
GUEST_NAMES: Final = shared_names.GUEST_NAMES
ANY_TOOL: Final = shared_names.ANY_TOOL

READY_NAMES: Final = (
    frozenset(dir(builtins))
    | frozenset({"exit", "quit", "copyright", "credits", "license", "__annotations__", "__builtins__", "__file__"})
    | GUEST_NAMES
    | NOTEBOOK_NAMES
    | frozenset(PRESET_NAMES)
)
"""Every name that is defined before the first line, apart from the tools."""


class _PythonFacts(msgspec.Struct):
    """Words about Python and its libraries, as `python_facts.json` has them."""

    packages: dict[str, str]
    """Modules whose package on the index has another name than one would guess."""
    outward_calls: dict[str, str]
    """Functions that cannot work here, by module; the rest of it works."""
    quiet_modules: list[str]
    """Modules that are imported soon and without an effect."""
    meant: dict[str, str]
    """Names that modules of the standard library do not have, and those that were meant."""
    members: dict[str, str]
    """Names that programs forget to import, by module."""
    other_languages: dict[str, str]
    """Names of other languages, and what Python has for them."""
    other_attributes: dict[str, str]
    """Attributes of other languages' lists, texts and dicts, and what Python has for them."""


FACTS: Final = msgspec.json.decode(Path(__file__).with_name("python_facts.json").read_bytes(), type=_PythonFacts)


# ----------------------------------------------------------------------------------------------------
# Which tools a program names, where nobody has said which tools there are.

_LIMITS: Final = Limits()


def mentioned_names(text: str, limits: Limits = _LIMITS) -> set[str]:
    """Names that a program takes from `tools`, or awaits without binding them.

    A program that reads an attribute of `tools` by a computed name may mean any identifier that
    stands in it as a string: Monty needs every name before it starts.
    """
    tree = parse(text, limits)
    if isinstance(tree, Problem):
        return set()  # the check says so to the model
    nodes = list(ast.walk(tree))
    aliases = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules = {alias.asname or "tools" for alias in aliases if alias.name == "tools"} | {"tools"}
    names = {name.removeprefix(ASYNC_PREFIX) for node in nodes for name in _names_from_tools(node, modules)}
    if any(_is_computed(node, modules) for node in nodes):
        names |= {str(node.value) for node in nodes if isinstance(node, ast.Constant) and _is_name(node.value)}
    names |= _awaited_names(tree, nodes)
    return {name for name in names if not name.startswith("__")} - GUEST_NAMES


def _names_from_tools(node: ast.AST, modules: set[str]) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in modules:
            yield name
        case ast.ImportFrom(module="tools", level=0, names=aliases):
            yield from (alias.name for alias in aliases if alias.name != "*")
        case ast.Call(
            func=ast.Name(id="getattr" | "hasattr"), args=[ast.Name(id=module), ast.Constant(value=name), *_]
        ):
            if module in modules and _is_name(name):
                yield str(name)


def _is_computed(node: ast.AST, modules: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=module), name, *_]):
            return module in modules and not isinstance(name, ast.Constant)
    return False


# object: whatever stands in a program as a constant.
def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _awaited_names(tree: ast.Module, nodes: list[ast.AST]) -> set[str]:
    """Bare names called under `await` or given to `gather` and its like, which the program never binds."""
    reader = ProgramReader(tree)
    awaited = set(awaited_values(nodes))
    return {
        use.node.func.id
        for use in reader.calls
        if use.node in awaited
        and isinstance(use.node.func, ast.Name)
        and use.node.func.id not in READY_NAMES
        and use.scope.find(use.node.func.id) is None
    }


# ----------------------------------------------------------------------------------------------------
# The tools of a program by every name it may call them; made once for many programs.

_FEW: Final = 6
_CLOSE: Final = 0.7
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


class ToolIndex:
    """Names and modules of tools. Signatures are worked out when a program calls the tool."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.modules: dict[str, dict[str, ToolSpec]] = {"tools": {}}
        """Members of each importable module: `tools`, `tools.<domain>`."""
        self._signatures: dict[str, InputSignature] = {}
        flat = self.modules["tools"]
        for tool in tools:
            names = (tool.python_name, *tool.aliases)
            flat.update(dict.fromkeys(names, tool))
            if tool.domain:
                self.modules.setdefault(f"tools.{tool.domain}", {}).update(dict.fromkeys(names, tool))
        for tool in tools:
            if tool.short_name and tool.domain and tool.short_name not in flat:
                self.modules[f"tools.{tool.domain}"].setdefault(tool.short_name, tool)
        self.hyphenated: Mapping[str, ToolSpec] = {
            name: tool for tool in tools for name in (tool.name, *tool.aliases) if "-" in name
        }
        """Tools whose own name is a subtraction to Python."""
        self.names: Mapping[str, ToolSpec] = {
            name: tool for name, tool in flat.items() if name not in RESERVED and name.isidentifier()
        }
        """Tools that can be called without a module prefix."""
        self.hidden: Mapping[str, ToolSpec] = {name: flat[name] for name in flat.keys() & RESERVED}
        """Tools by a name that without a module in front is Python's or the guest's own."""

    def signature(self, tool: ToolSpec) -> InputSignature:
        signature = self._signatures.get(tool.python_name)
        if signature is None:
            signature = self._signatures[tool.python_name] = InputSignature(tool)
        return signature

    def some_names(self) -> str:
        names = [name for name, tool in self.names.items() if name == tool.python_name]
        few = ", ".join(names[:_FEW])
        return f"{few}, ..." if len(names) > _FEW else few

    def nearest(self, name: str) -> str | None:
        return nearest(name, self.names)


def nearest(name: str, names: Collection[str]) -> str | None:
    """The likeliest of `names`: written otherwise, misspelt, or made of the same words."""
    plain = _plain(name)
    # Cheap filters first: there may be 10,000 names, and a ratio takes microseconds.
    letters, slack = set(plain), max(2, len(name) // 3)
    similar = []
    for other in names:
        if (
            other.isidentifier()
            and abs(len(other) - len(name)) <= slack
            and 2 * len(letters & set(other.lower())) >= len(letters)
        ):
            if _plain(other) == plain:
                return other
            similar.append(other)
    matches = difflib.get_close_matches(name, similar, 1, _CLOSE)
    return matches[0] if matches else _same_words(name, names)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _same_words(name: str, names: Collection[str]) -> str | None:
    words = _words(name)
    best, most = None, 0
    for other in names:
        if any(word in other.lower() for word in words):
            shared = _words(other)
            if (shared <= words or words <= shared) and len(shared & words) > most:
                best, most = other, len(shared & words)
    return best


def _words(name: str) -> set[str]:
    """Words of three letters or more; shorter ones say nothing."""
    return {word.lower() for word in _WORD.findall(name[:200]) if len(word) > 2}


# ----------------------------------------------------------------------------------------------------
# Tools behind a line that failed: which tools' replies a line of a program works on, followed back through its names.
#
# A guess for a message, not a rule: all bindings of a name count, wherever they stand. Must not know what was replied.

_FILLS = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
"""Methods after which a name holds what they were given."""


def tools_behind(text: str, line: int, specs: Mapping[str, ToolSpec], *, at: str = "") -> tuple[str, ...]:
    """Names of tools behind a line that failed, the nearest first.

    `specs` has the tools by each name that programs call them by; `at` is the missing key or attribute, where known.
    """
    try:
        tree = ast.parse(text)
        return tuple(dict.fromkeys(_Origins(tree, specs).behind(_suspects(tree, line, at))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _suspects(tree: ast.AST, line: int, at: str) -> list[ast.expr]:
    """Expressions that the line accesses; all of the line if that is unclear."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    expressions = [node for node in nodes if node.lineno <= line <= (node.end_lineno or node.lineno)]
    accesses = [node for node in expressions if isinstance(node, ast.Subscript | ast.Attribute)]
    exact = [node.value for node in accesses if at and _access_name(node) == at]
    return exact or [node for node in expressions if node.lineno == line] or expressions


def _access_name(node: ast.Subscript | ast.Attribute) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""


class _Origins:
    """Expressions that each name of a program may come from."""

    def __init__(self, tree: ast.Module, specs: Mapping[str, ToolSpec]) -> None:
        self._specs = specs
        self._sources: dict[str, list[ast.expr]] = {}
        nodes = list(ast.walk(tree))
        self._functions = {node.name: node for node in nodes if isinstance(node, Function)}
        for node in nodes:
            self._read(node)

    def behind(self, expressions: list[ast.expr]) -> Iterator[str]:
        """Tools, breadth first: those in the expressions themselves, then those behind their names."""
        waiting, visited = deque(expressions), set[str]()
        while waiting:
            for node in ast.walk(waiting.popleft()):
                name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
                spec = self._specs.get(name) or self._specs.get(name.removeprefix("async_"))
                if spec is not None:
                    yield spec.name
                elif isinstance(node, ast.Name) and name not in visited:
                    visited.add(name)
                    waiting.extend(self._sources.get(name, ()))

    def _read(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=source):
                for target in targets:
                    self._bind(target, source)
            case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                self._bind(node.target, node.value)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._bind(node.target, node.iter)
            case ast.withitem():
                self._bind(node.optional_vars, node.context_expr)
            case ast.Call():
                self._call(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for inner in ast.walk(node):  # a call of it gives what it returns
                    if isinstance(inner, ast.Return | ast.Yield) and inner.value is not None:
                        self._sources.setdefault(node.name, []).append(inner.value)

    def _bind(self, target: ast.AST | None, source: ast.expr | None) -> None:
        """Every name in the target may hold what is in the source."""
        if target is None or source is None:
            return
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._sources.setdefault(node.id, []).append(source)

    def _call(self, call: ast.Call) -> None:
        """Arguments reach the parameters of the program's own functions and of lambdas beside them."""
        arguments = [*call.args, *(argument.value for argument in call.keywords)]
        function = self._functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if function is not None:
            parameters = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
            for name, source in zip(parameters, call.args, strict=False):
                self._sources.setdefault(name, []).append(source)
            for keyword in call.keywords:
                self._sources.setdefault(keyword.arg or "", []).append(keyword.value)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(call.func, ast.Attribute) and call.func.attr in _FILLS:
            for source in arguments:
                self._bind(owner, source)
        for argument in arguments:
            if isinstance(argument, ast.Lambda):
                for source in (*(other for other in arguments if other is not argument), *([owner] if owner else [])):
                    for parameter in argument.args.args:
                        self._sources.setdefault(parameter.arg, []).append(source)
