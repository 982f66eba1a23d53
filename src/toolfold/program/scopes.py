"""Which names a program binds, and where: Python's scopes without their values."""

from __future__ import annotations

import ast
from enum import Enum
from typing import Final

OPAQUE: Final = ""
"""The meaning of a name that anything may have been bound to."""


class Kind(Enum):
    """What opens a scope."""

    MODULE = "module"
    FUNCTION = "function"
    CLASS = "class"
    COMPREHENSION = "comprehension"


class Scope:
    """The names bound in one block of a program.

    A name means `OPAQUE`, or what it was imported as: `json`, `tools.hr` for a module,
    `tools.hr:price` for a member. Two different meanings make it opaque.
    """

    __slots__ = (
        "bound",
        "can_await",
        "elsewhere",
        "first",
        "functions",
        "kind",
        "loops",
        "node",
        "parent",
        "rebound",
        "root",
        "values",
    )

    def __init__(
        self, kind: Kind, parent: Scope | None = None, *, can_await: bool = False, node: ast.AST | None = None
    ) -> None:
        self.kind = kind
        self.node = node
        """The function or class that opens it."""
        self.parent = parent
        self.root: Scope = parent.root if parent is not None else self
        self.can_await = can_await
        self.bound: dict[str, str] = {}
        self.rebound: set[str] = set()
        self.first: dict[str, int] = {}
        """The first line that binds each name; 0 for a parameter."""
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        """Those defined right here."""
        self.values: dict[str, ast.expr] = {}
        """What a plain assignment gives a name; it may have others, see `rebound`."""
        self.loops: dict[str, ast.expr] = {}
        """What a plain loop takes a name's values from."""
        self.elsewhere: dict[str, bool] = {}
        """Names declared `global` (true) or `nonlocal` (false)."""

    def bind(self, name: str, meaning: str = OPAQUE, line: int | None = 0) -> None:
        """Note that a statement gives `name` a value; without a line, one that needs an earlier value itself."""
        if line is not None and (name not in self.first or line < self.first[name]):
            self.first[name] = line
        if name in self.bound:
            self.rebound.add(name)
            if self.bound[name] != meaning:
                meaning = OPAQUE
        self.bound[name] = meaning

    def find(self, name: str) -> Scope | None:
        """The scope that a use of `name` in this one reads from; `None` if the program never binds it."""
        scope: Scope | None = self
        while scope is not None:
            if scope.elsewhere.get(name):
                return self.root if name in self.root.bound else None
            # A class body sees its own names; what is nested in it does not.
            if name in scope.bound and (scope.kind is not Kind.CLASS or scope is self):
                return scope
            scope = scope.parent
        return None

    def settle_declared(self) -> None:
        """Carry bindings of `global` and `nonlocal` names to where they belong."""
        for name, is_global in self.elsewhere.items():
            if name not in self.bound:
                continue
            owner = self.root if is_global else self.parent
            while owner is not None and owner is not self.root and name not in owner.bound:
                owner = owner.parent
            if owner is not None:
                owner.bind(name)
                owner.rebound.add(name)
