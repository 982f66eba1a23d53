"""Calls of a program's own functions, and of what runs coroutines: too few arguments, or nobody who awaits."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from toolfold.program.arguments import Fault
from toolfold.program.reader import Reader, Use
from toolfold.program.scopes import Kind, Scope

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_ITERATING: Final = frozenset({"all", "any", "dict", "list", "max", "min", "set", "sorted", "sum", "tuple"})
_LISTS: Final = (ast.List, ast.ListComp, ast.Tuple, ast.GeneratorExp)


def function_faults(reader: Reader, runs: Callable[[Use], bool]) -> Iterator[Fault]:
    """Faults in no order; `runs` tells which code is run."""
    if reader.is_dynamic:
        return
    may_gather = "gather" in reader.attributes or "asyncio" in reader.modules
    dropped = {use.node for use in reader.dropped}
    for use in reader.calls:
        function = use.node.func
        fault = None
        if function.__class__ is ast.Name:
            name = function.id
            if name in reader.functions:
                found = _own(name, use.scope)
                fault = found and (_arity(use.node, found) or _dropped(use, found, dropped))
            elif name in _ITERATING:
                fault = _async_generator(use, name) if reader.awaited else None
            elif name == "input":
                fault = _typed_in(use)
        if fault is None and may_gather and _is_gather(function, use.scope):
            fault = _gathered(use, dropped, reader)
        if fault and runs(use):
            yield fault


def _own(name: str, scope: Scope) -> _Function | None:
    """The one function of that name; a decorator or a second definition may make it something else."""
    owner = scope.find(name)
    if owner is None or name in owner.rebound or owner.kind not in (Kind.MODULE, Kind.FUNCTION):
        return None
    found = owner.functions.get(name)
    return found if found is not None and not found.decorator_list else None


def _arity(call: ast.Call, function: _Function) -> Fault | None:
    if any(isinstance(one, ast.Starred) for one in call.args) or any(word.arg is None for word in call.keywords):
        return None
    spec = function.args
    positional = [one.arg for one in (*spec.posonlyargs, *spec.args)]
    only_positional = {one.arg for one in spec.posonlyargs}
    given = {word.arg for word in call.keywords}
    takes = f"{function.name!r} takes {_listed([*positional, *(one.arg for one in spec.kwonlyargs)])}"
    if len(call.args) > len(positional) and spec.vararg is None:
        return Fault("arguments", f"{takes}; got {len(call.args)} positional arguments", call.args[len(positional)])
    known = {*positional, *(one.arg for one in spec.kwonlyargs)} - only_positional
    for word in call.keywords:
        if word.arg not in known and spec.kwarg is None:
            return Fault("arguments", f"{takes}; it has no argument {word.arg!r}", word)
        if word.arg in positional[: len(call.args)] and word.arg not in only_positional:
            return Fault("arguments", f"{takes}; it got {word.arg!r} twice", word)
    needed = positional[len(call.args) : len(positional) - len(spec.defaults)]
    needed += [one.arg for one, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is None]
    missing = [name for name in needed if name not in given]
    return Fault("arguments", f"{takes}; {_listed(missing)} is missing", call) if missing else None


def _dropped(use: Use, function: _Function, dropped: set[ast.expr]) -> Fault | None:
    """`main()` as a statement of its own makes a coroutine that does nothing."""
    if not isinstance(function, ast.AsyncFunctionDef) or use.node not in dropped or _is_generator(function):
        return None
    return Fault(
        "not_awaited", f"{function.name!r} is called but never awaited; {_await(function.name, use)}", use.node
    )


def _await(name: str, use: Use) -> str:
    return f"write 'await {name}(...)'" if use.scope.can_await else f"write 'asyncio.run({name}(...))'"


def _is_generator(function: ast.AsyncFunctionDef) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))


def _gathered(use: Use, dropped: set[ast.expr], reader: Reader) -> Fault | None:
    call = use.node
    if len(call.args) == 1 and isinstance(call.args[0], _LISTS):
        return Fault(
            "arguments", "'gather' takes the calls one by one, not in a list; write 'gather(*[...])'", call.args[0]
        )
    if call in dropped and call.args and not _awaits_later(call, reader):
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


def _awaits_later(call: ast.Call, reader: Reader) -> bool:
    return any(node.lineno >= call.lineno for node in reader.awaited)


def _async_generator(use: Use, name: str) -> Fault | None:
    """`sum(await f(x) for x in xs)`: Python makes that an async generator, which only `async for` reads."""
    argument = use.node.args[0] if use.node.args else None
    if not isinstance(argument, ast.GeneratorExp) or use.scope.find(name) is not None or not _awaits(argument):
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


def _typed_in(use: Use) -> Fault | None:
    if use.scope.find("input") is not None:
        return None
    return Fault(
        "input", "'input' cannot work here: nobody is there to type; write the value into the program", use.node
    )


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) if names else "no arguments"
