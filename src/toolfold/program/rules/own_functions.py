"""A program's own functions and classes: calls with wrong arguments, and attributes that a value does not have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from toolfold.program.known_names import nearest
from toolfold.program.rules import value_uses
from toolfold.program.rules.analysis import Analysis
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.reachability import Reach
from toolfold.program.rules.value_types import ATTRIBUTES, DICT, LIST, SET, STR, ValueType
from toolfold.program.syntax_facts import CATCHES_ATTRIBUTES, CATCHES_TYPES, Function, Kind, NodeUse, Scope, last_name

_PATCHED: Final = frozenset({"__code__", "__defaults__", "__kwdefaults__"})
"""Attributes that change what a function takes."""
_INIT: Final = re.compile(r"_*(init|int|inti|intit|initt|constructor)_*")
_NO_ARGUMENTS: Final = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
_TYPES: Final[dict[type[ast.expr], ValueType]] = {
    ast.List: LIST, ast.ListComp: LIST, ast.Dict: DICT, ast.DictComp: DICT, ast.JoinedStr: STR, ast.Set: SET,
    ast.SetComp: SET,
}  # fmt: skip


def arity_faults(program: Analysis) -> Iterator[Fault]:
    """Faults in no order."""
    if not _PATCHED.isdisjoint(program.names.set_attributes):
        return
    for use in program.reader.calls:
        function = program.own_function(use.node.func, use.scope)
        fault = function and arity_fault(use.node, function.name, function.args)
        if fault and program.runs(use, CATCHES_TYPES):
            yield fault


def arity_fault(call: ast.Call, name: str, spec: ast.arguments, *, skip: int = 0) -> Fault | None:
    """What is wrong with the arguments of a call, if anything; the first `skip` parameters get theirs from Python."""
    if any(isinstance(argument, ast.Starred) for argument in call.args) or any(
        word.arg is None for word in call.keywords
    ):
        return None
    positional = [argument.arg for argument in (*spec.posonlyargs, *spec.args)][skip:]
    only_positional = {argument.arg for argument in spec.posonlyargs}
    keyword_only = [argument.arg for argument in spec.kwonlyargs]
    accepted_names = {*positional, *keyword_only} - only_positional
    fault: tuple[str, ast.AST] | None = None
    if len(call.args) > len(positional) and spec.vararg is None:
        fault = f"got {len(call.args)} positional arguments", call.args[len(positional)]
    for word in () if fault else call.keywords:
        if word.arg not in accepted_names and spec.kwarg is None:
            fault = fault or (f"it has no argument {word.arg!r}", word)
        elif word.arg in positional[: len(call.args)] and word.arg not in only_positional:
            fault = fault or (f"it got {word.arg!r} twice", word)
    if fault is None:
        needed = positional[len(call.args) : max(0, len(positional) - len(spec.defaults))]
        needed += [name for name, default in zip(keyword_only, spec.kw_defaults, strict=True) if default is None]
        missing = [name for name in needed if all(name != word.arg for word in call.keywords)]
        fault = (f"{_join_names(missing)} is missing", call) if missing else None
    if fault is None:
        return None
    return Fault("arguments", f"{name!r} takes {_join_names([*positional, *keyword_only])}; {fault[0]}", fault[1])


def _join_names(names: list[str]) -> str:
    return ", ".join(map(repr, names)) or "no arguments"


def attribute_faults(program: Analysis) -> Iterator[Fault]:
    """Attributes that no list, text or dict has, where a name certainly holds one; in no order."""
    for use in program.names.attribute_uses:
        node = use.node
        owner = use.scope.find(node.value.id)
        if owner is None or owner.kind not in (Kind.MODULE, Kind.FUNCTION) or node.value.id in owner.rebound:
            continue
        value = owner.values.get(node.value.id)
        is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        kind = STR if is_text else _TYPES.get(value.__class__)  # type: ignore[arg-type]  # of no value there is none
        if kind and node.attr not in ATTRIBUTES[kind.name] and program.runs(use, CATCHES_ATTRIBUTES):
            yield Fault("name", value_uses.no_attribute(node, kind, is_pending=False), node)


def class_faults(program: Analysis) -> Iterator[Fault]:
    """Faults in no order."""
    if ast.ClassDef not in program.reader.shape.kinds:
        return
    names = program.names.set_attributes.union(*(scope.bound for scope in program.classes.values()))
    least = Reach.LIKELY if "hasattr" in program.names.loads else Reach.BRANCH
    for use in program.names.attribute_uses:
        fault = None if use.node.attr in names else _attribute_fault(use, program)
        if fault and program.reach(use, CATCHES_ATTRIBUTES) >= least:
            yield fault
    for use in program.reader.calls:
        for fault in _call_faults(use, program):
            if fault and program.reach(use, CATCHES_TYPES):
                yield fault


def _attribute_fault(use: NodeUse, program: Analysis) -> Fault | None:
    node = use.node
    scope = None if node.attr.startswith("__") else program.instance_of(node.value, use.scope)
    members = None if scope is None else program.members(scope)
    if scope is None or members is None or node.attr in members or program.is_base(scope):
        return None
    near = nearest(node.attr, sorted({*members, *program.names.set_attributes}))
    change = f"did you mean {near!r}?" if near else f"it has {', '.join(map(repr, sorted(members)[:6]))}"
    assert isinstance(scope.node, ast.ClassDef)
    return Fault("name", f"{scope.node.name!r} has no {node.attr!r}; {change}", node)


def _call_faults(use: NodeUse, program: Analysis) -> Iterator[Fault | None]:
    callee, names = use.node.func, program.names
    is_method = isinstance(callee, ast.Attribute) and callee.attr in names.functions - names.set_attributes
    if not is_method and not isinstance(callee, ast.Name):
        return
    function = program.own_method(callee, use.scope) if is_method else None
    if function is not None:
        yield arity_fault(use.node, function.name, function.args, skip=not _is_static(function))
        return
    scope = program.class_of(callee.value if is_method else callee, use.scope)
    if scope is None or not isinstance(scope.node, ast.ClassDef) or program.members(scope) is None:
        return
    if not is_method:
        yield from _construction_faults(use, scope.node, scope, program)
        return
    function = program.method_in(scope, callee.attr)
    if function and not function.decorator_list and arity_fault(use.node, function.name, function.args):
        name = scope.node.name
        yield Fault("arguments", f"{name!r} is a class; make an instance of it first, with '{name}(...)'", callee)


def _construction_faults(use: NodeUse, node: ast.ClassDef, scope: Scope, program: Analysis) -> Iterator[Fault | None]:
    if "__init__" in (program.members(scope) or ()):
        function = program.method_in(scope, "__init__")
        yield arity_fault(use.node, node.name, function.args, skip=1) if function else None
    elif node.decorator_list:
        spec = None if node.bases else _dataclass_arguments(node)
        yield arity_fault(use.node, node.name, spec) if spec else None
    else:
        for name, function in scope.functions.items():
            if _INIT.fullmatch(name) and name not in program.names.attributes and _stores(function):
                yield Fault("name", f"nothing calls {name!r}; write 'def __init__' to prepare instances", function)
        yield arity_fault(use.node, node.name, _NO_ARGUMENTS)


def _is_static(function: Function) -> bool:
    return any(last_name(item) == "staticmethod" for item in function.decorator_list)


def _stores(function: Function) -> bool:
    """Whether it takes more than `self`, or gives `self` an attribute, as a constructor does."""
    attributes = (node for node in ast.walk(function) if isinstance(node, ast.Attribute))
    return len(function.args.args) > 1 or any(isinstance(node.ctx, ast.Store) for node in attributes)


def _dataclass_arguments(node: ast.ClassDef) -> ast.arguments | None:
    """What a plain dataclass without a base takes; `None` where its options say something else."""
    decorators = {last_name(getattr(item, "func", item)): getattr(item, "keywords", ()) for item in node.decorator_list}
    if "dataclass" not in decorators or any(decorators.values()):
        return None
    names, defaults = [], []
    for field in node.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        annotation, call = ast.unparse(field.annotation), field.value if isinstance(field.value, ast.Call) else None
        options = {keyword.arg for keyword in call.keywords} if call else set()
        if "KW_ONLY" in annotation or options & {None, "init", "kw_only"}:
            return None
        if "ClassVar" in annotation:
            continue
        names.append(ast.arg(arg=field.target.id))
        is_needed = call and last_name(call.func) == "field" and options.isdisjoint({"default", "default_factory"})
        if field.value is not None and not is_needed:
            defaults.append(field.value)
    return ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=defaults)
