"""Names and imports: what a program binds, reads, and may bind unseen."""

from __future__ import annotations

import ast
from typing import Final

from toolfold.program.reading.facts import Guard, Use
from toolfold.program.reading.walk import Handler, Walk
from toolfold.program.scopes import OPAQUE, Kind, Scope

_DYNAMIC_NAMES: Final = frozenset(
    {"__builtins__", "__import__", "eval", "exec", "global_enum", "globals", "locals", "setattr", "vars"}
)  # fmt: skip
_SYMPY_BINDERS: Final = frozenset({"var", "vring", "vfield", "vfree_group", "init_session"})
"""What binds names where it is called: `var('x')`, then `x`."""
_DYNAMIC_MODULES: Final = frozenset({"__main__", "builtins", "importlib"})


def settle(walk: Walk) -> None:
    """What only the whole tree tells."""
    for scope in walk.declaring:
        scope.settle_declared()
    names = walk.names
    if "sympy" in names.modules and not (
        _SYMPY_BINDERS.isdisjoint(names.loads) and _SYMPY_BINDERS.isdisjoint(names.attributes)
    ):
        names.is_dynamic = True


def _name(walk: Walk, node: ast.Name, scope: Scope, guard: Guard) -> None:
    name = node.id
    if node.ctx.__class__ is not ast.Load:
        scope.bind(name, OPAQUE, node.lineno)
        return
    if name in _DYNAMIC_NAMES:
        walk.names.is_dynamic = True
    uses = walk.names.loads.get(name)
    if uses is None:
        walk.names.loads[name] = [Use(node, scope, guard)]
    else:
        uses.append(Use(node, scope, guard))


def _walrus(walk: Walk, node: ast.NamedExpr, scope: Scope, guard: Guard) -> None:
    owner = scope
    while owner.kind is Kind.COMPREHENSION and owner.parent is not None:
        owner = owner.parent
    owner.bind(node.target.id, OPAQUE, node.lineno)
    walk.stack.append((node.value, scope, guard))


def _declared(walk: Walk, node: ast.Global | ast.Nonlocal, scope: Scope, _guard: Guard) -> None:
    if scope.kind is not Kind.MODULE:
        scope.elsewhere.update(dict.fromkeys(node.names, isinstance(node, ast.Global)))
        walk.declaring.append(scope)


def _import(walk: Walk, node: ast.Import, scope: Scope, guard: Guard) -> None:
    walk.imports.append(Use(node, scope, guard))
    for alias in node.names:
        first = alias.name.split(".", 1)[0]
        _imported(walk, first)
        if alias.asname:
            scope.bind(alias.asname, alias.name, node.lineno)
        else:
            scope.bind(first, first, node.lineno)


def _import_from(walk: Walk, node: ast.ImportFrom, scope: Scope, guard: Guard) -> None:
    walk.imports.append(Use(node, scope, guard))
    module = "" if node.level else node.module or ""
    _imported(walk, module.split(".", 1)[0])
    for alias in node.names:
        if alias.name != "*":
            meaning = f"{module}:{alias.name}" if module else OPAQUE
            scope.bind(alias.asname or alias.name, meaning, node.lineno)
        elif module.split(".", 1)[0] != "tools":
            walk.names.is_dynamic = True


def _constant(walk: Walk, node: ast.Constant, _scope: Scope, _guard: Guard) -> None:
    value = node.value
    if value.__class__ is str and ".py" in value:
        walk.names.mentions_files = True


def _imported(walk: Walk, module: str) -> None:
    walk.names.modules.add(module)
    if module in _DYNAMIC_MODULES:
        walk.names.is_dynamic = True


HANDLERS: Final[dict[type[ast.AST], Handler]] = {
    ast.Name: _name,
    ast.NamedExpr: _walrus,
    ast.Global: _declared,
    ast.Nonlocal: _declared,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Constant: _constant,
}
