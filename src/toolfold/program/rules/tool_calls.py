"""Calls of tools: which tool is meant, and with which arguments.

A fault is reported only where it is certain. A name that the program may have bound,
in whatever way, is the program's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

from toolfold.models import ToolSpec
from toolfold.program.known_names import GUEST_NAMES, READY_NAMES, ToolIndex, nearest
from toolfold.program.reader import ProgramReader
from toolfold.program.rules.analysis import Analysis
from toolfold.program.rules.arguments import Fault, InputSignature, fault_in
from toolfold.program.syntax_facts import (
    CATCHES_ATTRIBUTES,
    CATCHES_IMPORTS,
    CATCHES_NAMES,
    CATCHES_TOOLS,
    CATCHES_TYPES,
    OPAQUE,
    SPEAKS_OF_NAMES,
    UNGUARDED,
    Function,
    NodeUse,
    Scope,
    is_generator,
    position_of,
)
from toolfold_guest.shared.call_style import ASYNC_PREFIX

_FEW: Final = 6
_CAUGHT: Final = CATCHES_ATTRIBUTES | CATCHES_NAMES | CATCHES_TOOLS | CATCHES_TYPES
_MOST_GUESSES: Final = 16
"""Names looked up for a spelling mistake, for each program: it is linear in the number of tools."""
_GIVES_ANYTHING: Final = frozenset({"anext", "eval", "getattr", "max", "min", "next"})
"""Builtins whose value may be a coroutine."""


class ToolCallee(NamedTuple):
    """A call that certainly goes to a tool."""

    tool: ToolSpec
    name: str
    """As the program spells it."""


class ToolCallCheck:
    """Judges the calls and tool imports of one program."""

    def __init__(self, program: Analysis) -> None:
        self._program, self._reader, self._index = program, program.reader, program.index
        self._guesses: dict[str, str | None] = {}
        self.caught: Fault | None = None
        """The first fault in a `try` that may catch it: not certain to matter, and worth a hint."""

    def faults(self) -> Iterator[Fault]:
        """The first in the text; none where names can be bound unseen."""
        for use in () if self._reader.names.is_dynamic else sorted(self._reader.calls, key=position_of):
            fault = callee = self._callee(use)
            if isinstance(callee, ToolCallee):
                fault = fault_in(use.node, callee.name, self._index.signature(callee.tool))
                if fault is None:
                    self._program.tools[use.node] = callee.tool
            if isinstance(fault, Fault) and self._program.reach(use, UNGUARDED):
                if self._program.reach(use, _CAUGHT):
                    yield fault
                    return
                if not use.guard & SPEAKS_OF_NAMES:
                    self.caught = self.caught or fault

    def subtraction_faults(self) -> Iterator[Fault]:
        """Tools written with their hyphens, which Python takes for minus signs."""
        if self._reader.names.is_dynamic:
            return
        for use in sorted(self._reader.values.subtractions, key=position_of):
            node, scope, _ = use
            spelt = _hyphenated_name(node)
            tool = self._index.hyphenated.get(spelt or "") or self._index.names.get((spelt or "").replace("-", "_"))
            is_free = tool is not None and spelt is not None and scope.find(spelt.partition("-")[0]) is None
            if tool is not None and is_free and self._program.reach(use, _CAUGHT):
                text = f"{spelt!r} is not a valid Python name; write {tool.python_name!r}"
                yield Fault("unknown_tool", text, node)

    def import_faults(self) -> Iterator[Fault]:
        for node, _, guard in sorted(self._reader.imports, key=position_of):
            if guard & CATCHES_IMPORTS:
                continue
            if isinstance(node, ast.ImportFrom):
                yield from self._import_from_faults(node)
                continue
            for alias in node.names:
                if alias.name.startswith("tools.") and alias.name not in self._index.modules:
                    yield self._no_module(alias.name, alias)

    def _import_from_faults(self, node: ast.ImportFrom) -> Iterator[Fault]:
        module = node.module or ""
        if node.level or module.split(".", 1)[0] != "tools":
            return
        members = self._index.modules.get(module)
        if members is None:
            yield self._no_module(module, node)
            return
        for alias in node.names:
            name = alias.name
            is_there = _member(members, name) or f"{module}.{name}" in self._index.modules
            if name != "*" and not is_there and name not in GUEST_NAMES and not name.startswith("_"):
                yield self._no_tool(name, module, alias)

    # Which tool

    def _callee(self, use: NodeUse) -> ToolCallee | Fault | None:
        """The tool that a call goes to, or a fault if it goes to none and should."""
        attributes: list[str] = []
        node = use.node.func
        while node.__class__ is ast.Attribute:
            attributes.append(node.attr)
            node = node.value
        if node.__class__ is not ast.Name:
            return None
        attributes.reverse()
        owner = use.scope.find(node.id)
        if owner is None:
            if node.id in self._program.known_names:
                return None
            if attributes:
                return self._in_module("tools", attributes, use) if node.id == "tools" else None
            return self._bare(node, use)
        module, _, member = owner.bound[node.id].partition(":")
        if module.split(".", 1)[0] != "tools":
            return None
        if not member:
            return self._in_module(module, attributes, use) if attributes else None
        tool = _member(self._index.modules.get(module, {}), member)
        if tool is not None and not attributes:
            return ToolCallee(tool, node.id)
        module = f"{module}.{member}"
        return self._in_module(module, attributes, use) if attributes and module in self._index.modules else None

    def _bare(self, node: ast.Name, use: NodeUse) -> ToolCallee | Fault | None:
        name = node.id
        tool = self._index.names.get(name)
        if tool is not None:
            return ToolCallee(tool, name)
        if name in READY_NAMES:
            return self._hidden(node, use) if name in self._index.hidden else None
        if use.node in self._reader.values.awaited or self._guess(name) is not None:
            return self._no_tool(name, "tools", node)
        return None

    def _hidden(self, node: ast.Name, use: NodeUse) -> Fault | None:
        """The tool was meant, not the builtin that has its name: what most builtins give cannot be awaited."""
        if use.node not in self._reader.values.awaited or (node.id in _GIVES_ANYTHING and use.node.args):
            return None
        spelling = self._index.hidden[node.id].python_name
        return Fault("unknown_tool", f"{node.id!r} is Python's own; the tool is called {spelling!r}", node)

    def _in_module(self, module: str, attributes: list[str], use: NodeUse) -> ToolCallee | Fault | None:
        *path, name = attributes
        if module not in self._index.modules:
            return None  # its import is a fault of its own, unless that is guarded
        for step in path:
            if step.startswith("_") or _member(self._index.modules[module], step):
                return None
            module = f"{module}.{step}"
            if module not in self._index.modules:
                return self._no_module(module, use.node)
        tool = _member(self._index.modules[module], name)
        if tool is not None:
            return ToolCallee(tool, f"{module}.{name}")
        if name.startswith("_") or f"{module}.{name}" in self._index.modules:
            return None
        return self._no_tool(name.removeprefix(ASYNC_PREFIX), module, use.node.func)

    def _no_tool(self, name: str, module: str, node: ast.AST) -> Fault:
        names = self._index.names
        place = "" if module == "tools" else f" in '{module}'"
        near = nearest(name, self._index.modules[module])
        if near is None and module != "tools":
            near = name if name in names else self._guess(name)
            near = f"tools.{near}" if near else None
        near = near or self._guess(name)
        if near is not None:
            rest = f"did you mean {near!r}?"
        elif names:
            rest = f"the tools are: {self._index.some_names()}"
        else:
            rest = "this program has no tools"
        return Fault("unknown_tool", f"no tool {name!r}{place}; {rest}", node)

    def _no_module(self, module: str, node: ast.AST) -> Fault:
        module_names = [name.removeprefix("tools.") for name in self._index.modules if name != "tools"]
        near = nearest(module.removeprefix("tools."), module_names)
        if near is not None:
            rest = f"did you mean 'tools.{near}'?"
        elif module_names:
            rest = f"the modules are: {', '.join(f'tools.{name}' for name in module_names[:_FEW])}"
        else:
            rest = "all tools are in 'tools'"
        return Fault("unknown_tool", f"no module {module!r}; {rest}", node)

    def _guess(self, name: str) -> str | None:
        if name not in self._guesses:
            if len(self._guesses) >= _MOST_GUESSES:
                return None
            self._guesses[name] = self._index.nearest(name)
        return self._guesses[name]


def _hyphenated_name(node: ast.AST) -> str | None:
    """`a-b-c`, if that is what stands there, whatever is done with the last of them."""
    parts: list[str] = []
    while True:
        match node:
            case ast.BinOp(op=ast.Sub(), right=right, left=left_operand):
                last = _hyphenated_name(right)
                if last is None:
                    return None
                parts.append(last)
                node = left_operand
            case ast.Attribute(value=ast.Name(id="tools"), attr=name) | ast.Name(id=name):
                return "-".join((name, *reversed(parts)))
            case (
                ast.Await(value=inner) | ast.Subscript(value=inner) | ast.Attribute(value=inner) | ast.Call(func=inner)
            ):
                node = inner
            case _:
                return None


def _member(members: dict[str, ToolSpec], name: str) -> ToolSpec | None:
    return members.get(name) or (members.get(name[len(ASYNC_PREFIX) :]) if name.startswith(ASYNC_PREFIX) else None)


# ----------------------------------------------------------------------------------------------------
# Definitions that stand in for a tool: the same name and parameters, and no tool is called in them.


def stand_ins(tree: ast.Module, reader: ProgramReader, index: ToolIndex) -> list[Function]:
    """Functions at the top level that only replace a tool; a wrapper calls one, a helper has other parameters."""
    return [
        node
        for node in tree.body
        if isinstance(node, Function)
        and node.name in index.names
        and not node.decorator_list
        and not is_generator(node)
        and _has_parameters_of(node, index.signature(index.names[node.name]))
        and not _mentions_tools(node, reader.root, index)
    ]


def _has_parameters_of(function: Function, signature: InputSignature) -> bool:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return all(signature.name_of(name) is not None for name in names) and (bool(names) or not signature.required)


def _mentions_tools(function: Function, root: Scope, index: ToolIndex) -> bool:
    """Whether it, or anything of the program that it uses, speaks of a tool."""
    definitions = {node.name: node for node in _top_level_definitions(root)}
    stack: list[ast.AST] = [function]
    visited = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    visited |= {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    while stack:
        source = stack.pop()
        for node in ast.walk(source):
            if not isinstance(node, ast.Name) or node.id in visited:
                continue
            if node.id == function.name:
                if source is function:
                    continue  # it calls itself
                return True
            visited.add(node.id)
            meaning = root.bound.get(node.id)
            is_own = meaning is not None and meaning.split(".", 1)[0].partition(":")[0] != "tools"
            if not is_own and (node.id in index.names or node.id == "tools" or meaning):
                return True
            if meaning == OPAQUE and node.id not in definitions and node.id not in root.values:
                return True  # bound by a loop, `with` or another way that is not worth following
            stack.extend(part for part in (definitions.get(node.id), root.values.get(node.id)) if part is not None)
    return False


def _top_level_definitions(root: Scope) -> Iterator[Function | ast.ClassDef]:
    yield from root.functions.values()
    yield from (scope.node for scope in root.scopes if scope.parent is root and isinstance(scope.node, ast.ClassDef))
