"""Analysis of one program, for all rules: what names mean, which function a call goes to, of which class a value is.

Of classes only those whose members can all be seen: no metaclass, no foreign base, no `__getattr__`.
"""

from __future__ import annotations

import ast
from collections.abc import Container
from functools import cached_property
from typing import Final

from toolfold.models import ToolSpec
from toolfold.program.known_names import PRESET_NAMES, ToolIndex
from toolfold.program.reader import ProgramReader
from toolfold.program.rules.reachability import Reachability
from toolfold.program.syntax_facts import Function, Kind, Scope, last_name

_PRESETS: Final = frozenset(PRESET_NAMES)
_PLAIN_DECORATORS: Final = frozenset({"dataclass", "total_ordering", "final"})
_STATIC: Final = frozenset({"staticmethod", "classmethod"})
_HOOKS: Final = frozenset({"__getattr__", "__getattribute__", "__new__", "__slots__", "__class_getitem__"})


class Analysis(Reachability):
    """What is certain about a program, and the tools and names that it may use."""

    def __init__(self, tree: ast.Module, reader: ProgramReader, index: ToolIndex, known_names: Container[str]) -> None:
        super().__init__(tree, reader)
        self.index, self.known_names = index, known_names
        self.callees: set[ast.expr] = {use.node.func for use in reader.calls}
        self.tools: dict[ast.AST, ToolSpec] = {}
        """The tool of each call that was judged and found right."""

    @cached_property
    def arguments(self) -> dict[ast.expr, ast.Call]:
        """What calls are given by position, with the call."""
        return {argument: use.node for use in self.reader.calls for argument in use.node.args}

    @cached_property
    def presets(self) -> tuple[str, ...]:
        """Modules that are there without an import, of those that nothing else defines."""
        loads, names = self.names.loads, self.index.names
        if _PRESETS.isdisjoint(loads):
            return ()
        return tuple(
            name
            for name in PRESET_NAMES
            if name in loads
            and name not in names
            and name not in self.known_names
            and any(use.scope.find(name) is None for use in loads[name])
        )

    def meaning(self, name: str, scope: Scope) -> str:
        """Its own name for what the program never binds, `json` or `json:loads` for an import, else nothing."""
        owner = scope.find(name)
        return name if owner is None else owner.bound[name]

    def path_of(self, node: ast.expr, scope: Scope) -> str:
        """`urllib.request.urlopen`, however it was imported; `len` for a builtin; empty for what has no such path."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        root = self.meaning(node.id, scope).replace(":", ".") if isinstance(node, ast.Name) else ""
        return ".".join((root, *reversed(names))) if root else ""

    # Functions and classes of the program

    def own_function(self, callee: ast.expr, scope: Scope) -> Function | None:
        """The function that a name certainly is; a decorator or a second definition may make it something else."""
        if not isinstance(callee, ast.Name) or callee.id not in self.names.functions:
            return None
        owner = scope.find(callee.id)
        if owner is None or callee.id in owner.rebound or owner.kind not in (Kind.MODULE, Kind.FUNCTION):
            return None
        function = owner.functions.get(callee.id)
        return function if function is not None and not function.decorator_list else None

    def own_method(self, callee: ast.expr, scope: Scope) -> Function | None:
        """The method that an attribute of an instance certainly is."""
        if not isinstance(callee, ast.Attribute) or callee.attr in self.names.set_attributes:
            return None
        owner = self.instance_of(callee.value, scope)
        return None if owner is None or self.is_base(owner) else self.method_in(owner, callee.attr)

    @cached_property
    def classes(self) -> dict[tuple[Scope, str], Scope]:
        """By the scope that binds them and their name."""
        scopes = [scope for scope in self.reader.root.scopes if scope.kind is Kind.CLASS]
        return {(_outer(scope), scope.node.name): scope for scope in scopes if isinstance(scope.node, ast.ClassDef)}

    @cached_property
    def _members(self) -> dict[Scope, frozenset[str] | None]:
        return {}

    @cached_property
    def _instantiated(self) -> set[str]:
        return {use.node.func.id for use in self.reader.calls if isinstance(use.node.func, ast.Name)}

    @cached_property
    def _bases(self) -> set[str]:
        nodes = [scope.node for scope in self.classes.values()]
        return {last_name(base) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases}

    def class_of(self, node: ast.expr | None, scope: Scope) -> Scope | None:
        """The class that an expression certainly is: its name, or a variable that was given it."""
        for _ in range(2):
            if not isinstance(node, ast.Name):
                return None
            owner = scope.find(node.id)
            if owner is not None and node.id not in owner.rebound and (owner, node.id) in self.classes:
                return self.classes[owner, node.id]
            node = self.value_of(node, scope)
        return None

    def instance_of(self, node: ast.expr, scope: Scope) -> Scope | None:
        """The class of an instance that an expression certainly is, `self` included."""
        value: ast.expr | None = node
        if isinstance(node, ast.Name):
            owner = scope.find(node.id)
            if owner is None:
                return None
            if _is_self(node.id, owner) and owner.parent is not None and isinstance(owner.parent.node, ast.ClassDef):
                return owner.parent if owner.parent.node.name in self._instantiated else None  # not that of a mixin
            value = self.value_of(node, scope)
        return self.class_of(value.func, scope) if isinstance(value, ast.Call) else None

    def members(self, scope: Scope) -> frozenset[str] | None:
        """Names in a class and its bases; `None` if there may be others."""
        if scope not in self._members:
            self._members[scope] = None  # while it is looked for: a class may be its own base by mistake
            self._members[scope] = self._all_members(scope)
        return self._members[scope]

    def _all_members(self, scope: Scope) -> frozenset[str] | None:
        node = scope.node
        assert isinstance(node, ast.ClassDef)
        decorators = {last_name(getattr(item, "func", item)) for item in node.decorator_list}
        if node.keywords or not decorators <= _PLAIN_DECORATORS:
            return None
        names = set(scope.bound)
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id == "object":
                continue
            inherited = self.class_of(base, _outer(scope))
            members = None if inherited is None else self.members(inherited)
            if members is None:
                return None
            names |= members
        return None if names & _HOOKS else frozenset(names)

    def is_base(self, scope: Scope) -> bool:
        """Whether a class of the program inherits from it, or is mixed with it."""
        return isinstance(scope.node, ast.ClassDef) and scope.node.name in self._bases

    def method_in(self, scope: Scope, name: str) -> Function | None:
        """A method that is defined once, and decorated with nothing but `staticmethod` or `classmethod`."""
        if self.members(scope) is None or not isinstance(scope.node, ast.ClassDef):
            return None
        if name in scope.bound:
            function = None if name in scope.rebound else scope.functions.get(name)
            decorators = {last_name(item) for item in function.decorator_list} if function else set()
            return function if decorators <= _STATIC else None
        bases = [self.class_of(base, _outer(scope)) for base in scope.node.bases]
        return self.method_in(bases[0], name) if len(bases) == 1 and bases[0] is not None else None


def _outer(scope: Scope) -> Scope:
    owner = scope.parent or scope
    while owner.kind is Kind.FUNCTION and owner.node is None and owner.parent is not None:
        owner = owner.parent  # the scope of type parameters
    return owner


def _is_self(name: str, owner: Scope) -> bool:
    function, outer = owner.node, owner.parent
    if outer is None or outer.kind is not Kind.CLASS or not isinstance(function, Function) or name in owner.rebound:
        return False
    arguments = [*function.args.posonlyargs, *function.args.args]
    is_bound = _STATIC.isdisjoint(last_name(item) for item in function.decorator_list)
    return is_bound and bool(arguments) and arguments[0].arg == name and function.name != "__init_subclass__"
