"""Calls of a program's own functions with arguments that they do not take."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeAlias

from toolfold.program.arguments import Fault
from toolfold.program.reader import Reader
from toolfold.program.reading.facts import Use
from toolfold.program.scopes import Kind

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def arity_faults(reader: Reader, runs: Callable[[Use], bool]) -> Iterator[Fault]:
    """Faults in no order; `runs` tells which code is run."""
    for use in reader.calls if reader.names.functions else ():
        function = own_function(use, reader)
        fault = function and _arity(use.node, function)
        if fault and runs(use):
            yield fault


def own_function(use: Use, reader: Reader) -> Function | None:
    """The function that a call certainly goes to; a decorator or a second definition may make it something else."""
    callee = use.node.func
    if callee.__class__ is not ast.Name or callee.id not in reader.names.functions:
        return None
    owner = use.scope.find(callee.id)
    if owner is None or callee.id in owner.rebound or owner.kind not in (Kind.MODULE, Kind.FUNCTION):
        return None
    found = owner.functions.get(callee.id)
    return found if found is not None and not found.decorator_list else None


def is_generator(function: Function) -> bool:
    """Whether it yields, or a function within it does."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))


def _arity(call: ast.Call, function: Function) -> Fault | None:
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


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) if names else "no arguments"
