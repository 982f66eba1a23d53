"""Names that a program uses and never binds, or binds only later.

Only where it is certain, or as good as that: code that runs when the program does. A function that
nobody mentions, a `try` that catches it, a handler, and a branch that may never be taken are left
alone, for their mistakes may never show; on a branch only what is plainly a slip of the pen is told.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import sys
from collections.abc import Iterator
from typing import Final

from toolfold.program.known_names import FACTS, PRESET_NAMES, READY_NAMES, ToolIndex
from toolfold.program.rules.analysis import Analysis
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.reachability import LOOPS, Reach
from toolfold.program.syntax_facts import CATCHES_NAMES, MAYBE, Function, Kind, NodeUse, Scope, last_name, position_of
from toolfold_guest.shared.reserved_names import PROGRAMS

_IMPLICIT: Final = frozenset({"__class__", "__qualname__", "__module__", "__path__", "_", "reveal_type"})
_NEVER: Final = sys.maxsize
"""The line that binds a name which is only ever added to."""
_EXCEPTIONS: Final = frozenset(
    {name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)}
    | {"ToolError"}
)
_CAUGHT: Final = CATCHES_NAMES | MAYBE
_FEW: Final = 40
"""Uses judged for each program; the first fault is the one that is told."""


class Bindings:
    """Judges the uses of names of one program."""

    def __init__(self, program: Analysis) -> None:
        self._program = program

    def faults(self) -> Iterator[Fault]:
        """The first in the text."""
        entries = sorted((*self._unbound(), *self._early()), key=lambda entry: position_of(entry[0]))
        for use, bound_at in entries[:_FEW]:
            reach = self._program.reach(use, CATCHES_NAMES)
            is_told = reach >= Reach.LIKELY and (
                bound_at
                or self._has_fix(use)
                or (reach is Reach.CERTAIN and not self._program.may_be_uncalled(use.node))
            )
            if is_told or (reach and not bound_at and _is_slip(use)):
                yield Fault("name", self._message(use, bound_at), use.node)
                break
        if self._program.reader.values.handled:
            yield from self._exception_faults()

    def _exception_faults(self) -> Iterator[Fault]:
        """Handlers of exceptions that do not exist: a slip that shows only once something was raised."""
        for use in self._program.reader.values.handled[:_FEW]:
            name, text = last_name(use.node), ""
            match use.node:
                case ast.Name() if name not in READY_NAMES and name not in self._program.known_names:
                    near = difflib.get_close_matches(name, _EXCEPTIONS, 1, _VERY_CLOSE)
                    is_own = use.scope.find(name) is not None
                    text = f"{name!r} is not defined; did you mean {near[0]!r}?" if near and not is_own else ""
                case ast.Attribute(value=ast.Name(id="tools" | "toolfold" as module)) if name != "ToolError" or (
                    module == "toolfold"
                ):
                    is_own = use.scope.find(module) is not None
                    text = "" if is_own else f"there is no '{module}.{name}'; write 'except ToolError'"
            if text and self._program.reach(use, CATCHES_NAMES):
                yield Fault("name", text, use.node)

    def _unbound(self) -> Iterator[tuple[NodeUse, int]]:
        loads, bound = self._program.names.loads, self._program.reader.root.bound
        modules = self._program.index.modules
        # One by one, from a set: a difference of views, or of several at once, goes through all of the other side.
        strange = set(loads).difference(READY_NAMES).difference(bound).difference(self._program.index.names)
        for name in strange - _IMPLICIT if strange else ():
            if name in self._program.known_names or (name == PROGRAMS and f"tools.{PROGRAMS}" in modules):
                continue
            for use in loads[name]:
                is_caught = use.guard & _CAUGHT
                # Programs for an older Python, too, ask for the version before they use a name of that.
                if (
                    not is_caught
                    and use.scope.find(name) is None
                    and not (name in _OLD and self._program.stands_in_branch(use.node))
                ):
                    yield use, 0

    def _message(self, use: NodeUse, bound_at: int) -> str:
        name = use.node.id
        if bound_at == _NEVER:
            return f"{name!r} is added to before it has a value; give it one first, such as '{name} = 0'"
        if bound_at:
            return f"{name!r} is used before it has a value; line {bound_at} is the first to give it one"
        return f"{name!r} is not defined; {fix_for(name, use, self._program)}"

    def _has_fix(self, use: NodeUse) -> bool:
        return fix_for(use.node.id, use, self._program) != _NO_FIX

    # Bound only later

    def _early(self) -> Iterator[tuple[NodeUse, int]]:
        """Uses on a line before, or in the statement of, the first binding in the same block."""
        for name, uses in self._program.names.loads.items():
            for use in uses:
                node, scope, guard = use
                if guard & _CAUGHT or name not in scope.bound:
                    continue
                first = scope.first.get(name, _NEVER)
                if node.lineno <= first and self._is_early(name, use, first):
                    yield use, first

    def _is_early(self, name: str, use: NodeUse, first: int) -> bool:
        scope = use.scope
        if scope.kind not in (Kind.MODULE, Kind.FUNCTION) or name in scope.declarations:
            return False
        is_ready = name in READY_NAMES or name in self._program.known_names or name in self._program.index.names
        if is_ready and scope.kind is Kind.MODULE:
            return False
        top = scope.node if isinstance(scope.node, Function) else self._program.tree
        path = self._program.path_to(use.node, top)
        if any(isinstance(node, ast.Lambda) for node in (scope.node, *path)):
            return False
        # In the first round of a loop nothing is bound yet, for what is not on a branch.
        if any(_may_bind(node, first) for node in path):
            return use.node.lineno < first and self._program.reach_within(top, use.node) is Reach.CERTAIN
        if use.node.lineno < first:
            return True
        statement = next((node for node in reversed(path) if isinstance(node, ast.stmt)), None)
        return (
            isinstance(statement, ast.Assign)
            and any(node is use.node for node in ast.walk(statement.value))
            and any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
        )


def _may_bind(node: ast.AST, first: int) -> bool:
    """Whether an earlier round of a loop may have bound it."""
    return isinstance(node, LOOPS) and (node.end_lineno or node.lineno) >= first


# ----------------------------------------------------------------------------------------------------
# What a name that nobody defined was probably meant to be: words for an error text.

_FOREIGN: Final = frozenset(
    {"true", "false", "null", "undefined", "TRUE", "FALSE", "NULL", "console", "printf", "println", "parseInt",
     "parseFloat", "strlen"}
)  # fmt: skip
"""Names of other languages that are never one of the program's own that it forgot to define."""
_OLD: Final = frozenset(
    {
        "xrange", "raw_input", "unicode", "basestring", "long", "unichr", "reduce", "file", "cmp", "execfile", "reload",
        "buffer", "apply", "intern", "WindowsError",
    }
)  # fmt: skip
_MODULE_OF: Final = {name: module for module, names in FACTS.members.items() for name in names.split()}
_MODULES: Final = frozenset(name for name in sys.stdlib_module_names if not name.startswith("_"))
_NO_FIX: Final = "give it a value first"
_CLOSE: Final = 0.75
_VERY_CLOSE: Final = 0.8
_MOST: Final = 2000


def fix_for(name: str, use: NodeUse, program: Analysis) -> str:
    """The next step, after `'x' is not defined; `."""
    if name in FACTS.other_languages:
        return f"write {FACTS.other_languages[name]}"
    tool = _tool_on(name, program)
    if tool is not None:
        return f"call the tool by its own name: {tool}(...)"
    near = _nearest(name, use.scope, program.index)
    if name in _MODULE_OF and near != name:
        return f"add 'from {_MODULE_OF[name]} import {name}'"
    if name in _MODULES:
        return f"add 'import {name}'"
    if near is not None:
        return f"did you mean {near!r}?"
    return _NO_FIX


def _is_slip(use: NodeUse) -> bool:
    """Whether a name is plainly one of the program's own, misspelt, or one of another language."""
    own_names = [name for scope in _scopes_around(use.scope) for name in scope.bound][:_MOST]
    return use.node.id in _FOREIGN or bool(difflib.get_close_matches(use.node.id, own_names, 1, _VERY_CLOSE))


def _scopes_around(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent


def _tool_on(name: str, program: Analysis) -> str | None:
    """The tool in `client.get_users(...)`, where there is no `client`."""
    for use in program.reader.calls:
        function = use.node.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == name:
            tool = program.index.names.get(function.attr)
            if tool is not None:
                return tool.python_name
    return None


def _nearest(name: str, scope: Scope | None, index: ToolIndex) -> str | None:
    """A name that is there and is written nearly the same: of the program first, then of tools, then of Python."""
    own = [name for outer in _scopes_around(scope) for name in outer.bound]
    for names in (own, index.names, (*PRESET_NAMES, *dir(builtins))):
        matches = difflib.get_close_matches(name, list(names)[:_MOST], 1, _CLOSE)
        if matches:
            return matches[0]
    return None
