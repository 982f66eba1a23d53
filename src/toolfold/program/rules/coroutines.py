"""Coroutines of a program's own that nobody awaits, and `gather` in shapes that cannot work.

A tool's call needs no `await`; a function of the program's own does, as in any Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from toolfold.program.reader import ProgramReader
from toolfold.program.reader_facts import Kind, NodeUse, Scope, is_generator, last_name
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.own_classes import OwnClasses
from toolfold.program.rules.own_functions import own_function
from toolfold.program.rules.reachability import Reachability

_ITERATING: Final = frozenset(
    {"all", "any", "Counter", "deque", "dict", "enumerate", "extend", "fmean", "frozenset", "fsum", "join", "list",
     "max", "mean", "median", "min", "set", "sorted", "sum", "tuple", "zip"}
)  # fmt: skip
_CONSUMING: Final = _ITERATING | frozenset(
    {"abs", "bool", "enumerate", "filter", "float", "frozenset", "int", "iter", "len", "map", "next", "print"}
    | {"reversed", "round", "str", "zip"}
)
"""Builtins that can do nothing useful with a coroutine."""
_LISTS: Final = (ast.List, ast.ListComp, ast.Tuple, ast.GeneratorExp)


def coroutine_faults(reader: ProgramReader, reachability: Reachability) -> Iterator[Fault]:
    """Faults in no order."""
    may_gather = "gather" in reader.names.attributes or "asyncio" in reader.names.modules
    may_await_inside = reader.values.awaited and ast.GeneratorExp in reader.shape.kinds
    if not (may_gather or reader.names.coroutines or may_await_inside):
        return
    unawaited = _Unawaited(reader, reachability)
    for use in reader.calls:
        callee = use.node.func
        fault = None
        arguments = use.node.args
        if arguments and arguments[0].__class__ is ast.GeneratorExp and may_await_inside:
            fault = _async_generator(use, last_name(callee))
        is_gather = may_gather and _is_gather(callee, use.scope)
        if fault is None and is_gather:
            fault = _gathered(use, unawaited.dropped, reader)
        fault = fault or unawaited.fault_of(use, is_gather=is_gather)
        if fault and reachability.may_run(use):
            yield fault


class _Unawaited:
    """Calls whose value is used as no coroutine can be."""

    def __init__(self, reader: ProgramReader, reachability: Reachability) -> None:
        self._reader = reader
        self._reachability = reachability
        self._classes = OwnClasses(reader, reachability)
        self.dropped = {use.node for use in reader.values.dropped}
        self._spoiled: set[ast.expr] | None = None

    def fault_of(self, use: NodeUse, *, is_gather: bool) -> Fault | None:
        if not is_gather and last_name(use.node.func) not in self._reader.names.coroutines:
            return None
        if self._spoiled is None:
            self._spoiled = self._reader.values.spoiled | self._consumed()
            self._spoiled |= self._misused_calls(self._spoiled)
        if use.node not in self._spoiled:
            return None
        name = self._name_of(use, is_gather=is_gather)
        if name is None:
            return None
        name = name if isinstance(use.node.func, ast.Name) else ast.unparse(use.node.func)
        replacement = f"await {name}(...)" if use.scope.can_await else f"asyncio.run({name}(...))"
        return Fault("not_awaited", f"{name!r} is called but never awaited; write '{replacement}'", use.node)

    def _name_of(self, use: NodeUse, *, is_gather: bool) -> str | None:
        """Name of the called function, if its result has to be awaited."""
        if is_gather and use.node not in self.dropped:
            return ast.unparse(use.node.func)
        function = own_function(use, self._reader) or self._classes.method(use)
        is_coroutine = isinstance(function, ast.AsyncFunctionDef) and not is_generator(function)
        return function.name if function is not None and is_coroutine else None

    def _consumed(self) -> set[ast.expr]:
        """Values given to something that needs more than a coroutine, such as `print`."""
        consumed: set[ast.expr] = set()
        for call, scope, _ in self._reader.calls:
            callee = call.func
            if callee.__class__ is ast.Name and callee.id in _CONSUMING and scope.find(callee.id) is None:
                consumed.update(call.args)
        return consumed

    def _misused_calls(self, spoiled: set[ast.expr]) -> set[ast.expr]:
        """Calls put into a name that is then read only as no coroutine can be."""
        calls: set[ast.expr] = set()
        for call, name, scope in self._reader.values.assigned:
            is_plain = scope.kind in (Kind.MODULE, Kind.FUNCTION) and name not in scope.declarations
            if not is_plain or name in scope.rebound:
                continue
            reads = [use for use in self._reader.names.loads.get(name, ()) if use.scope.find(name) is scope]
            misused = [use for use in reads if use.node in spoiled]
            if misused and (len(misused) == len(reads) or any(map(self._raises, misused))):
                calls.add(call)
        return calls

    def _raises(self, use: NodeUse) -> bool:
        """Whether a coroutine certainly raises where it is read, whatever else is done with it."""
        path = self._reachability.around(use)
        return bool(path) and isinstance(path[-1], ast.For | ast.comprehension | ast.BinOp | ast.Subscript)


def _gathered(use: NodeUse, dropped: set[ast.expr], reader: ProgramReader) -> Fault | None:
    call = use.node
    only = call.args[0] if len(call.args) == 1 else call
    owner = use.scope.find(only.id) if isinstance(only, ast.Name) else None
    is_list = owner is not None and only.id not in owner.rebound and isinstance(owner.values.get(only.id), _LISTS)
    if is_list or isinstance(only, _LISTS):
        change = f"gather(*{only.id})" if is_list else "gather(*[...])"
        return Fault("arguments", f"'gather' takes the calls one by one, not in a list; write '{change}'", only)
    awaits_later = any(node.lineno >= call.lineno for node in reader.values.awaited)
    if call in dropped and call.args and not awaits_later:
        return Fault("not_awaited", "'gather' is called but never awaited; write 'await asyncio.gather(...)'", call)
    return None


def _is_gather(function: ast.expr, scope: Scope) -> bool:
    if isinstance(function, ast.Attribute):
        value = function.value
        return function.attr == "gather" and isinstance(value, ast.Name) and _meaning(value.id, scope) == "asyncio"
    return isinstance(function, ast.Name) and _meaning(function.id, scope) == "asyncio:gather"


def _meaning(name: str, scope: Scope) -> str:
    owner = scope.find(name)
    return name if owner is None else owner.bound[name]


def _async_generator(use: NodeUse, name: str) -> Fault | None:
    """`sum(await f(x) for x in xs)`: Python makes that an async generator, which only `async for` reads."""
    argument, callee = use.node.args[0], use.node.func
    is_own = isinstance(callee, ast.Name) and use.scope.find(name) is not None and not _meaning(name, use.scope)
    if name not in _ITERATING or is_own or not _awaits(argument):
        return None
    return Fault(
        "not_awaited",
        f"{name!r} cannot read a generator that awaits; write '{name}([...])' with a list inside",
        argument,
    )


def _awaits(generator: ast.GeneratorExp) -> bool:
    inside = [generator.elt, *(test for loop in generator.generators for test in loop.ifs)]
    inside += [loop.iter for loop in generator.generators[1:]]
    return any(_has_await(node) for node in inside)


def _has_await(top: ast.expr) -> bool:
    stack: list[ast.AST] = [top]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Await):
            return True
        if not isinstance(node, ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))
    return False
