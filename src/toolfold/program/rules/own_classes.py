"""Instances of a program's own classes: how they are made, and the methods and attributes that they do not have.

Only of classes whose members can all be seen: no metaclass, no foreign base, no `__getattr__`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from toolfold.program.known_names import nearest
from toolfold.program.reader import ProgramReader
from toolfold.program.reader_facts import CATCHES_ATTRIBUTES, CATCHES_TYPES, Function, Kind, NodeUse, Scope, last_name
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.own_functions import arity_fault
from toolfold.program.rules.reachability import Reach, Reachability

_PLAIN_DECORATORS: Final = frozenset({"dataclass", "total_ordering", "final"})
_HOOKS: Final = frozenset({"__getattr__", "__getattribute__", "__new__", "__slots__", "__class_getitem__"})
_INIT: Final = re.compile(r"_*(init|int|inti|intit|initt|constructor)_*")
_NO_ARGUMENTS: Final = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def class_faults(reader: ProgramReader, reachability: Reachability) -> Iterator[Fault]:
    """Faults in no order."""
    classes = OwnClasses(reader, reachability)
    can_ask = "hasattr" in reader.names.loads
    for use in reader.names.attribute_uses:
        fault = None if use.node.attr in classes.all_names else classes.attribute_fault(use)
        if fault and reachability.reach(use, CATCHES_ATTRIBUTES) >= (Reach.LIKELY if can_ask else Reach.BRANCH):
            yield fault
    for use in reader.calls:
        for fault in classes.call_faults(use):
            if reachability.reach(use, CATCHES_TYPES):
                yield fault


class OwnClasses:
    """The classes that a program defines, once each."""

    def __init__(self, reader: ProgramReader, reachability: Reachability) -> None:
        self._reader = reader
        self._reachability = reachability
        self._members: dict[Scope, frozenset[str] | None] = {}

    @cached_property
    def _scopes(self) -> dict[tuple[Scope, str], Scope]:
        scopes = [scope for scope in self._reader.root.scopes if scope.kind is Kind.CLASS]
        pairs = [(_outer(scope), scope) for scope in scopes]
        return {(owner, scope.node.name): scope for owner, scope in pairs if isinstance(scope.node, ast.ClassDef)}

    @cached_property
    def _instantiated(self) -> set[str]:
        return {use.node.func.id for use in self._reader.calls if isinstance(use.node.func, ast.Name)}

    @cached_property
    def all_names(self) -> set[str]:
        """Of members of any class, and of attributes that are set anywhere."""
        return self._reader.names.set_attributes.union(*(scope.bound for scope in self._scopes.values()))

    def class_of(self, node: ast.expr | None, use: NodeUse) -> Scope | None:
        """The class that an expression certainly is: its name, or a variable that was given it."""
        for _ in range(2):
            if not isinstance(node, ast.Name):
                return None
            owner = use.scope.find(node.id)
            if owner is not None and node.id not in owner.rebound and (owner, node.id) in self._scopes:
                return self._scopes[owner, node.id]
            node = self._reachability.value_of(node, use)
        return None

    def instance_of(self, node: ast.expr, use: NodeUse) -> Scope | None:
        """The class of an instance that an expression certainly is, `self` included."""
        if isinstance(node, ast.Name):
            owner = use.scope.find(node.id)
            if owner is None:
                return None
            if _is_self(node.id, owner) and owner.parent is not None and isinstance(owner.parent.node, ast.ClassDef):
                return owner.parent if owner.parent.node.name in self._instantiated else None  # not that of a mixin
            value = self._reachability.value_of(node, use)
        else:
            value = node
        return self.class_of(value.func, use) if isinstance(value, ast.Call) else None

    def method(self, use: NodeUse) -> Function | None:
        """The method that a call certainly goes to."""
        callee = use.node.func
        if not isinstance(callee, ast.Attribute) or callee.attr in self._reader.names.set_attributes:
            return None
        scope = self.instance_of(callee.value, use)
        return None if scope is None or self._is_base(scope) else self._function(scope, callee.attr)

    def attribute_fault(self, use: NodeUse) -> Fault | None:
        node = use.node
        if node.attr.startswith("__"):
            return None
        scope = self.instance_of(node.value, use)
        members = None if scope is None else self.members(scope)
        if scope is None or members is None or node.attr in members or self._is_base(scope):
            return None
        own = sorted({*members, *self._reader.names.set_attributes})
        near = nearest(node.attr, own)
        change = f"did you mean {near!r}?" if near else f"it has {', '.join(map(repr, sorted(members)[:6]))}"
        assert isinstance(scope.node, ast.ClassDef)
        return Fault("name", f"{scope.node.name!r} has no {node.attr!r}; {change}", node)

    def call_faults(self, use: NodeUse) -> Iterator[Fault]:
        callee = use.node.func
        if isinstance(callee, ast.Name):
            scope = self.class_of(callee, use)
            if scope is not None and self.members(scope) is not None:
                yield from self._construction_faults(use, scope)
            return
        name, names = last_name(callee), self._reader.names
        if not isinstance(callee, ast.Attribute) or name not in names.functions or name in names.set_attributes:
            return
        function = self.method(use)
        if function is not None:
            fault = arity_fault(use.node, function.name, function.args, skip=not _is_static(function))
            if fault:
                yield fault
            return
        scope = self.class_of(callee.value, use)
        function = None if scope is None else self._function(scope, callee.attr)
        if scope is None or function is None or function.decorator_list:
            return
        if arity_fault(use.node, function.name, function.args) and isinstance(scope.node, ast.ClassDef):
            name = scope.node.name
            yield Fault("arguments", f"{name!r} is a class; make an instance of it first, with '{name}(...)'", callee)

    def members(self, scope: Scope) -> frozenset[str] | None:
        """Names in a class and its bases; `None` if there may be others."""
        if scope not in self._members:
            self._members[scope] = None  # while it is looked for: a class may be its own base by mistake
            self._members[scope] = self._all_members(scope)
        return self._members[scope]

    def _all_members(self, scope: Scope) -> frozenset[str] | None:
        node = scope.node
        assert isinstance(node, ast.ClassDef)
        decorators = [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]
        if node.keywords or not {last_name(item) for item in decorators} <= _PLAIN_DECORATORS:
            return None
        names = set(scope.bound)
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id == "object":
                continue
            inherited = self._base(base, scope)
            members = None if inherited is None else self.members(inherited)
            if members is None:
                return None
            names |= members
        return None if names & _HOOKS else frozenset(names)

    def _base(self, base: ast.expr, scope: Scope) -> Scope | None:
        return self.class_of(base, NodeUse(base, _outer(scope), 0))

    def _is_base(self, scope: Scope) -> bool:
        """Whether a class of the program inherits from it, or is mixed with it."""
        assert isinstance(scope.node, ast.ClassDef)
        name = scope.node.name
        return any(
            last_name(base) == name
            for other in self._scopes.values()
            if isinstance(other.node, ast.ClassDef)
            for base in other.node.bases
        )

    def _function(self, scope: Scope, name: str) -> Function | None:
        """A method that is defined once, and decorated with nothing but `staticmethod` or `classmethod`."""
        if self.members(scope) is None or not isinstance(scope.node, ast.ClassDef):
            return None
        if name in scope.bound:
            function = None if name in scope.rebound else scope.functions.get(name)
            decorators = [last_name(item) for item in function.decorator_list] if function else []
            return function if set(decorators) <= {"staticmethod", "classmethod"} else None
        bases = [self._base(base, scope) for base in scope.node.bases]
        return self._function(bases[0], name) if len(bases) == 1 and bases[0] is not None else None

    def _construction_faults(self, use: NodeUse, scope: Scope) -> Iterator[Fault]:
        node = scope.node
        assert isinstance(node, ast.ClassDef)
        members = self.members(scope) or frozenset()
        if "__init__" in members:
            function = self._function(scope, "__init__")
            fault = function and arity_fault(use.node, node.name, function.args, skip=1)
        elif node.decorator_list:
            spec = None if node.bases else _dataclass_arguments(node)
            fault = None if spec is None else arity_fault(use.node, node.name, spec)
        else:
            for name, function in scope.functions.items():
                if _INIT.fullmatch(name) and name not in self._reader.names.attributes and _stores(function):
                    yield Fault("name", f"nothing calls {name!r}; write 'def __init__' to prepare instances", function)
            fault = arity_fault(use.node, node.name, _NO_ARGUMENTS)
        if fault:
            yield fault


def _outer(scope: Scope) -> Scope:
    owner = scope.parent or scope
    while owner.kind is Kind.FUNCTION and owner.node is None and owner.parent is not None:
        owner = owner.parent  # the scope of type parameters
    return owner


def _is_static(function: Function) -> bool:
    return any(last_name(item) == "staticmethod" for item in function.decorator_list)


def _is_self(name: str, owner: Scope) -> bool:
    function, outer = owner.node, owner.parent
    if outer is None or outer.kind is not Kind.CLASS or not isinstance(function, Function) or name in owner.rebound:
        return False
    arguments = [*function.args.posonlyargs, *function.args.args]
    is_bound = not {last_name(item) for item in function.decorator_list} & {"staticmethod", "classmethod"}
    return is_bound and bool(arguments) and arguments[0].arg == name and function.name != "__init_subclass__"


def _stores(function: Function) -> bool:
    """Whether it takes more than `self`, or gives `self` an attribute, as a constructor does."""
    attributes = (node for node in ast.walk(function) if isinstance(node, ast.Attribute))
    return len(function.args.args) > 1 or any(isinstance(node.ctx, ast.Store) for node in attributes)


def _dataclass_arguments(node: ast.ClassDef) -> ast.arguments | None:
    """What a plain dataclass without a base takes; `None` where its options say something else."""
    if any(isinstance(item, ast.Call) and item.keywords for item in node.decorator_list):
        return None
    if not any(
        last_name(item.func if isinstance(item, ast.Call) else item) == "dataclass" for item in node.decorator_list
    ):
        return None
    names, defaults = [], []
    for field in node.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        annotation = ast.unparse(field.annotation)
        if "KW_ONLY" in annotation or (isinstance(field.value, ast.Call) and _is_odd_field(field.value)):
            return None
        if "ClassVar" in annotation:
            continue
        names.append(ast.arg(arg=field.target.id))
        if field.value is not None and not _is_without_default(field.value):
            defaults.append(field.value)
    return ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=defaults)


def _is_odd_field(call: ast.Call) -> bool:
    return any(keyword.arg in (None, "init", "kw_only") for keyword in call.keywords)


def _is_without_default(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call) or last_name(value.func) != "field":
        return False
    return not any(keyword.arg in ("default", "default_factory") for keyword in value.keywords)
