"""Programs in the dialect of DESIGN 2, made into text that Monty runs. Pure: text in, text out.

Every edit stays on its line and keeps the number of lines, so tracebacks need no mapping.
Nothing here is a check: text that Python cannot parse goes through as it is, for Monty to refuse.
"""

import ast
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

PRELUDE: Final = """\
import asyncio
import json
import tools
from csv import Error as ToolError
def __loads__(text, **options):
    return text if isinstance(text, (dict, list)) else json.loads(text, **options)
def __task__(awaitable, name=None):
    return awaitable
async def __caught__(awaitable):
    try:
        return await awaitable
    except Exception as error:
        return error
async def __gather__(*awaitables, return_exceptions=False):
    if return_exceptions:
        awaitables = [__caught__(awaitable) for awaitable in awaitables]
    return await asyncio.gather(*awaitables)
"""
"""Runs before the program: names it finds ready, and what stands in for what Monty lacks."""

# What Monty's own modules lack or do differently, and the name of the prelude that is used instead.
_INSTEAD: Final = {
    ("json", "loads"): "__loads__",
    ("asyncio", "create_task"): "__task__",
    ("asyncio", "ensure_future"): "__task__",
    ("asyncio", "gather"): "__gather__",
}

_GATHERERS: Final = frozenset({"gather", "create_task", "ensure_future"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A text for Monty, and what its syntax says of the program's value."""

    text: str
    sets_result: bool = False
    """It assigns `result` at the top level, so that is its value if no expression gives one."""


def prepare(text: str, tools: Container[str]) -> Prepared:
    """The text that Monty is to run; `tools` are the identifiers that `from tools import` finds."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Prepared(text=text)
    finder = _Finder(text, tools)
    finder.visit(tree)
    return Prepared(text=finder.edited(), sets_result=_sets_result(tree))


class _Finder(ast.NodeVisitor):
    def __init__(self, text: str, tools: Container[str]) -> None:
        self._source = text.encode()
        self._tools = tools
        self._modules = {"tools"}
        self._edits: list[tuple[int, int, str]] = []
        self._line_starts = [0]
        for line in self._source.split(b"\n"):
            self._line_starts.append(self._line_starts[-1] + len(line) + 1)

    def edited(self) -> str:
        parts, at = [], 0
        for start, end, new in sorted(self._edits):
            parts += [self._source[at:start], new.encode()]
            at = end
        return b"".join([*parts, self._source[at:]]).decode()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if _is_tools(module):
            self._import_tools(node)
        elif any((module, alias.name) in _INSTEAD for alias in node.names):
            self._import_instead(node, module)

    def visit_Import(self, node: ast.Import) -> None:
        self._modules.update(alias.asname for alias in node.names if alias.asname and _is_tools(alias.name))

    def visit_Await(self, node: ast.Await) -> None:
        self._make_awaitable(node.value)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.attr != "gather":
            instead = _INSTEAD.get((node.value.id, node.attr))
            if instead:
                self._replace(node, instead)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        # Monty's own `gather` is the faster one; only this keyword is missing there.
        if ast.unparse(node.func) == "asyncio.gather" and any(k.arg == "return_exceptions" for k in node.keywords):
            self._replace(node.func, _INSTEAD["asyncio", "gather"])
        if ast.unparse(node.func).rpartition(".")[2] in _GATHERERS:
            for argument in node.args:
                self._make_argument_awaitable(argument)
        self.generic_visit(node)

    def _make_argument_awaitable(self, argument: ast.expr) -> None:
        inner = argument.value if isinstance(argument, ast.Starred) else argument
        if isinstance(inner, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            self._make_awaitable(inner.elt)
        elif isinstance(inner, ast.List | ast.Tuple | ast.Set):
            for item in inner.elts:
                self._make_awaitable(item)
        else:
            self._make_awaitable(inner)

    def _make_awaitable(self, node: ast.expr) -> None:
        """`tools.name(...)` whose value is awaited becomes `tools.async_name(...)`."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return
        root = ast.unparse(node.func.value)
        if root.partition(".")[0] in self._modules and node.func.attr in self._tools:
            self._replace(node.func, f"{root}.async_{node.func.attr}")

    def _import_tools(self, node: ast.ImportFrom) -> None:
        """What is imported from `tools` is awaitable; `tools.name` itself is the synchronous call."""
        if node.names[0].name == "*":
            self._replace(node, "pass")  # every tool is there as a bare name
            return
        names = [
            f"async_{alias.name} as {alias.asname or alias.name}" if alias.name in self._tools else ast.unparse(alias)
            for alias in node.names
        ]
        self._replace(node, f"from {node.module} import ({', '.join(names)}{self._newlines(node)})")

    def _import_instead(self, node: ast.ImportFrom, module: str) -> None:
        kept = [ast.unparse(alias) for alias in node.names if (module, alias.name) not in _INSTEAD]
        bound = [
            f"{alias.asname or alias.name} = {_INSTEAD[module, alias.name]}"
            for alias in node.names
            if (module, alias.name) in _INSTEAD
        ]
        newlines = self._newlines(node)
        imports = f"from {module} import ({', '.join(kept)})" if kept else "()"
        self._replace(node, "; ".join([imports[:-1] + newlines + ")", *bound]))

    def _replace(self, node: ast.expr | ast.stmt, new: str) -> None:
        start = self._line_starts[node.lineno - 1] + node.col_offset
        end = self._line_starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
        self._edits.append((start, end, new))

    def _newlines(self, node: ast.stmt) -> str:
        return "\n" * ((node.end_lineno or node.lineno) - node.lineno)


def _is_tools(module: str) -> bool:
    return module == "tools" or module.startswith("tools.")


def _sets_result(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == "result" and isinstance(node.ctx, ast.Store) for node in _top(tree)
    )


def _top(node: ast.AST) -> list[ast.AST]:
    """All nodes that run in the module's own scope."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            found += [child, *_top(child)]
    return found
