"""Source rewriter and prelude: programs as models write them, made into text that Monty runs. Pure.

Every edit stays on its line and keeps the number of lines, so tracebacks need no mapping.
Nothing here is a check: text that Python cannot parse goes through as it is, for Monty to refuse.
"""

import ast
import re
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolfold_guest.shared.call_flow import CallFlow
from toolfold_guest.shared.call_style import ASYNC_PREFIX, awaited_attributes, is_tools

# What Monty's own modules lack or do differently, and the name of the prelude that is used instead.
_INSTEAD: Final = {
    "json.loads": "__loads__", "asyncio.create_task": "__task__", "asyncio.ensure_future": "__task__",
    "asyncio.wait_for": "__wait_for__", "asyncio.TimeoutError": "TimeoutError", "asyncio.Semaphore": "__Semaphore__",
    "asyncio.BoundedSemaphore": "__Semaphore__", "asyncio.Lock": "__Semaphore__", "re.sub": "__sub__",
    "sys.exit": "__leave__", "sys.stdout.write": "__write__",
}  # fmt: skip

# A bare `gather` may be called with the keyword that Monty's own lacks.
_IMPORTED_INSTEAD: Final = {**_INSTEAD, "asyncio.gather": "__gather__"}
_SEMAPHORES: Final = frozenset({"asyncio.Semaphore", "asyncio.BoundedSemaphore", "asyncio.Lock"})


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
        finder = _Finder(text, tools)
        finder.semaphores = _semaphores(tree)
        finder.visit(tree)
        finder.make_awaitable(tree)
        finder.make_in_place(CallFlow(tree, tools))
        finder.return_answers(tree)
        edited = finder.edited()
        ast.parse(edited)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Prepared(text=text)
    return Prepared(text=edited, sets_result=_sets_result(tree))


class _Finder(ast.NodeVisitor):
    def __init__(self, text: str, tools: Container[str]) -> None:
        self._source = text.encode()
        self._tools = tools
        self.semaphores: set[str] = set()
        """What the program calls its semaphores and locks: `limit`, `self.limit`, ..."""
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

    def make_awaitable(self, tree: ast.Module) -> None:
        """`tools.name(...)` whose value is awaited becomes `tools.async_name(...)`."""
        for attribute in awaited_attributes(list(ast.walk(tree))):
            if attribute.attr in self._tools:
                self._replace(attribute, f"{_dotted(attribute.value)}.{ASYNC_PREFIX}{attribute.attr}")

    def make_in_place(self, flow: CallFlow) -> None:
        """A bare call that nothing can await is the synchronous `tools.name(...)`."""
        for call, _ in flow.sites_in_place():
            if isinstance(call.func, ast.Name) and call.func.id in self._tools:
                self._replace(call.func, f"tools.{call.func.id}")

    def return_answers(self, tree: ast.Module) -> None:
        """`final_answer(x)` is `return (x)` outside of functions, unless the name is the program's own, or a tool's."""
        if b"final_answer" not in self._source or "final_answer" in self._tools or _binds(tree, "final_answer"):
            return
        waiting: list[ast.AST] = list(tree.body)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Expr) and (answer := _answer(node.value)) is not None:
                self._edits.append((self._start(node), self._start(answer), "return ("))
            elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
                waiting.extend(ast.iter_child_nodes(node))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if is_tools(module):
            self._import_tools(node)
        elif any(f"{module}.{alias.name}" in _IMPORTED_INSTEAD for alias in node.names):
            self._import_instead(node, module)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        instead = _INSTEAD.get(_dotted(node))
        if instead:
            self._replace(node, instead)
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        # Monty's own `gather` is the faster one; only this keyword is missing there.
        name = _dotted(node.func)
        if name == "asyncio.gather" and any(k.arg == "return_exceptions" for k in node.keywords):
            self._replace(node.func, "__gather__")
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("sub", "subn") and name != "re.sub":
            self._brace_groups(node.args[1] if name == "re.subn" and len(node.args) > 1 else node.args[0:1])
        if name == "next" and node.args and isinstance(node.args[0], ast.GeneratorExp):
            self._iterate(node, node.args[0])
        self.generic_visit(node)

    def _brace_groups(self, replacement: ast.expr | list[ast.expr]) -> None:
        r"""Monty takes `\1_` of a replacement for a group called `1_`, and leaves it out; `\g<1>_` it understands."""
        for text in replacement if isinstance(replacement, list) else [replacement]:
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.lineno == text.end_lineno:
                braced = re.sub(r"(?<!\\)((?:\\\\)*)\\([1-9]\d?)", r"\1\\g<\2>", text.value)
                start, end = self._start(text), self._end(text)
                try:
                    is_there = ast.literal_eval(self._source[start:end].decode()) == text.value
                except (SyntaxError, ValueError):
                    is_there = False  # up to Python 3.11 a text in an f-string may not be where it says it is
                if braced != text.value and is_there:
                    self._edits.append((start, end, repr(braced)))

    def _iterate(self, call: ast.Call, generator: ast.GeneratorExp) -> None:
        """Monty's generator expressions are lists, and `next` takes no list."""
        start, end = self._start(generator), self._end(generator)
        # Alone in a call, it shares the call's own parentheses.
        shares = not self._source[self._end(call.func) : start].strip()
        if self._source[start : start + 1] + self._source[end - 1 : end] == b"()":
            self._edits += [(start, start, "(iter" if shares else "iter("), (end, end, ")")]

    def visit_AsyncWith(self, node: ast.AsyncWith) -> None:
        """`async with` of a semaphore has a form that Monty knows; of anything else it has none."""
        managers = [item.context_expr for item in node.items]
        if all(_dotted(expression) in self.semaphores for expression in managers):
            start, end = self._start(node), self._start(managers[0])
            self._edits.append((start, end, self._source[start:end].decode().removeprefix("async").lstrip()))
            for expression in managers:
                self._replace(expression, f"await __held__({_dotted(expression)})")
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        """`del rows[key]` is `rows.pop(key)`; what else can be deleted, Monty cannot."""
        target = node.targets[0]
        is_alone = len(node.targets) == 1
        if is_alone and isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Tuple | ast.Slice):
            parts = {
                "del": (self._start(node), self._start(target), ""),
                "[": (self._end(target.value), self._start(target.slice), ".pop("),
                "]": (self._end(target.slice), self._end(target), ")"),
            }
            # Parentheses and line breaks of the program's belong to no node; then it stays as it is.
            if all(self._source[start:end].strip(b" ") == key.encode() for key, (start, end, _) in parts.items()):
                self._edits += parts.values()
        self.generic_visit(node)

    def _import_tools(self, node: ast.ImportFrom) -> None:
        """What is imported from `tools` is awaitable; `tools.name` itself is the synchronous call."""
        if node.names[0].name == "*":
            self._replace(node, "pass")  # every tool is there as a bare name
            return
        names = [
            f"{ASYNC_PREFIX}{alias.name} as {alias.asname or alias.name}"
            if alias.name in self._tools
            else ast.unparse(alias)
            for alias in node.names
        ]
        self._replace(node, f"from {node.module} import ({', '.join(names)}{self._newlines(node)})")

    def _import_instead(self, node: ast.ImportFrom, module: str) -> None:
        instead = {alias: _IMPORTED_INSTEAD.get(f"{module}.{alias.name}") for alias in node.names}
        remaining = [ast.unparse(alias) for alias, name in instead.items() if not name]
        bound = [f"{alias.asname or alias.name} = {name}" for alias, name in instead.items() if name]
        newlines = self._newlines(node)
        imports = f"from {module} import ({', '.join(remaining)})" if remaining else "()"
        self._replace(node, "; ".join([imports[:-1] + newlines + ")", *bound]))

    def _replace(self, node: ast.expr | ast.stmt, new: str) -> None:
        start, end = self._start(node), self._end(node)
        # Up to Python 3.11 an expression in an f-string may not be where it says it is.
        if isinstance(node, ast.stmt) or self._source[start:end] == _dotted(node).encode():
            self._edits.append((start, end, new))

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._line_starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._line_starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def _newlines(self, node: ast.stmt) -> str:
        return "\n" * ((node.end_lineno or node.lineno) - node.lineno)


def _semaphores(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _dotted(getattr(node.value, "func", node.value)) in _SEMAPHORES:
            names.update(_dotted(target) for target in node.targets)
    return names - {""}


def _dotted(node: ast.expr) -> str:
    """`a.b.c` for a name or attributes of one; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _sets_result(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == "result" and isinstance(node.ctx, ast.Store) for node in _top(tree)
    )


def _top(node: ast.AST) -> list[ast.AST]:
    nodes: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            nodes += [child, *_top(child)]
    return nodes


def _answer(node: ast.expr) -> ast.expr | None:
    """What a call of `final_answer` gives, if it is one thing."""
    match node:
        case ast.Call(func=ast.Name(id="final_answer"), args=[answer], keywords=[]):
            return None if isinstance(answer, ast.Starred) else answer
        case ast.Call(func=ast.Name(id="final_answer"), args=[], keywords=[ast.keyword(arg=str(), value=answer)]):
            return answer
    return None


def _binds(tree: ast.Module, name: str) -> bool:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=bound, ctx=ast.Store()) | ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound):
                if bound == name:
                    return True
    return False


# ----------------------------------------------------------------------------------------------------
# Python that runs before each program on Monty: the names that it finds, and stand-ins for what Monty lacks.


def prelude(text: str) -> str:
    names = {name for name in _STAND_INS if name in text}
    names |= {_NEEDS[name] for name in names if name in _NEEDS}
    return _READY + "".join(code for name, code in _STAND_INS.items() if name in names)


_READY, *_definitions = (
    f"{block}\n" for block in Path(__file__).with_name("prelude.txt").read_text(encoding="utf-8").strip().split("\n\n")
)
"""Names that every program finds."""

_STAND_INS: Final = {re.findall(r"__\w+__", code)[0]: code for code in _definitions}
"""What stands in for what Monty lacks; a program gets what its text names, which only the edits here do.

`__deadline__`, `__ticket__` and `__settle__` are answered by the host, which owns every future.
"""

_NEEDS: Final = {"__gather__": "__caught__", "__held__": "__Held__", "__sub__": "__braced__"}
