"""One walk over a program's tree: names, calls, imports, and how values are used. Judges nothing.

The walk keeps its own stack: a tree may be deeper than Python's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from toolfold.program.scopes import OPAQUE, Kind, Scope

COROUTINE_ATTRIBUTES: Final = frozenset({"close", "send", "throw"})
_DYNAMIC_NAMES: Final = frozenset(
    {"__builtins__", "__import__", "eval", "exec", "global_enum", "globals", "locals", "setattr", "vars"}
)  # fmt: skip
_DYNAMIC_ATTRIBUTES: Final = frozenset(
    {"__builtins__", "__dict__", "__globals__", "_convert_", "_getframe", "currentframe", "f_globals", "f_locals",
     "global_enum", "modules"}
)  # fmt: skip
_SYMPY_BINDERS: Final = frozenset({"var", "vring", "vfield", "vfree_group", "init_session"})
"""What binds names where it is called: `var('x')`, then `x`."""
_DYNAMIC_MODULES: Final = frozenset({"__main__", "builtins", "importlib"})
_OTHERS: Final = frozenset(
    {"TYPE_CHECKING", "PY2", "PY3", "version_info", "version", "platform", "hasattr", "modules", "hexversion"}
)
_EMPTY_NODES: Final = frozenset({"ctx", "op", "ops"})
_LEAVES: Final = (ast.MatchSingleton, ast.Pass, ast.Break, ast.Continue)

Guard: TypeAlias = int
UNGUARDED: Final = 0
GUARDED: Final = 1
"""Inside a `try` with handlers: a failing import may be expected."""
GUARDED_NAMES: Final = 2
"""Its handlers speak of names or attributes: a missing one is expected."""
MAYBE: Final = 4
"""May well never run: a handler, an annotation that nobody evaluates, a branch for another version of Python."""

# Any: the handlers in the table take the node type that they are listed under.
_Handler: TypeAlias = Callable[["Reader", Any, Scope, Guard], None]


class Use(NamedTuple):
    """A node, and the scope and the `try` it stands in."""

    node: Any
    scope: Scope
    guard: Guard


class Reader:
    """What there is to know about a program before it is judged."""

    def __init__(self, tree: ast.Module) -> None:
        self.root = Scope(Kind.MODULE, can_await=True)
        self.calls: list[Use] = []
        self.imports: list[Use] = []
        self.loads: dict[str, list[Use]] = {}
        """Uses of each name."""
        self.awaited: set[ast.expr] = set()
        self.spoiled: set[ast.expr] = set()
        """Values used as no coroutine can be: dropped, subscripted, added, looped over, ..."""
        self.assigned: list[tuple[ast.Call, str, Scope]] = []
        """Calls whose value goes into one name."""
        self.functions: set[str] = set()
        """Names of all that are defined, wherever."""
        self.coroutines: set[str] = set()
        """Those of them that are defined with `async`."""
        self.attributes: set[str] = set()
        """Every attribute that is read."""
        self.set_attributes: set[str] = set()
        """Every attribute that is given a value."""
        self.keys: list[Use] = []
        """Subscripts with a text."""
        self.attribute_uses: list[Use] = []
        """Attributes of plain names."""
        self.dropped: list[Use] = []
        """Calls that stand as statements of their own."""
        self.modules: set[str] = set()
        """First parts of imported modules."""
        self.is_dynamic = False
        """Names may be bound in ways that cannot be seen here."""
        self.names_modules = False
        """A text in it names a file of Python, which it may write and import."""
        self.subtractions: list[Use] = []
        self.top_level_returns: list[ast.Return] = []
        self.tries_with_finally: list[ast.Try] = []
        self.captures = 0
        self.most_loops = 0
        self._scopes_with_declared: list[Scope] = []
        self._annotation = MAYBE if _postpones_annotations(tree) else UNGUARDED
        self._stack: list[tuple[ast.AST, Scope, Guard]] = [(node, self.root, UNGUARDED) for node in tree.body]
        self._walk()

    def _walk(self) -> None:
        stack, handlers = self._stack, self._HANDLERS
        while stack:
            node, scope, guard = stack.pop()
            handler = handlers.get(node.__class__)
            if handler is not None:
                handler(self, node, scope, guard)
            else:
                self._children(node, scope, guard)
        for scope in self._scopes_with_declared:
            scope.settle_declared()
        if "sympy" in self.modules and not (
            _SYMPY_BINDERS.isdisjoint(self.loads) and _SYMPY_BINDERS.isdisjoint(self.attributes)
        ):
            self.is_dynamic = True

    def _children(self, node: ast.AST, scope: Scope, guard: Guard) -> None:
        push = self._stack.append
        for field in _fields(node.__class__):
            value = getattr(node, field, None)
            if value.__class__ is list:
                for item in value:
                    if isinstance(item, ast.AST):
                        push((item, scope, guard))
            elif isinstance(value, ast.AST):
                push((value, scope, guard))

    def _push(self, nodes: Iterable[ast.AST | None], scope: Scope, guard: Guard) -> None:
        self._stack.extend([(node, scope, guard) for node in nodes if node is not None])

    # Names

    def _name(self, node: ast.Name, scope: Scope, guard: Guard) -> None:
        name = node.id
        if node.ctx.__class__ is not ast.Load:
            scope.bind(name, OPAQUE, node.lineno)
            return
        if name in _DYNAMIC_NAMES:
            self.is_dynamic = True
        uses = self.loads.get(name)
        if uses is None:
            self.loads[name] = [Use(node, scope, guard)]
        else:
            uses.append(Use(node, scope, guard))

    def _walrus(self, node: ast.NamedExpr, scope: Scope, guard: Guard) -> None:
        owner = scope
        while owner.kind is Kind.COMPREHENSION and owner.parent is not None:
            owner = owner.parent
        owner.bind(node.target.id, OPAQUE, node.lineno)
        self._stack.append((node.value, scope, guard))

    def _declared(self, node: ast.Global | ast.Nonlocal, scope: Scope, _guard: Guard) -> None:
        if scope.kind is not Kind.MODULE:
            scope.elsewhere.update(dict.fromkeys(node.names, isinstance(node, ast.Global)))
            self._scopes_with_declared.append(scope)

    def _import(self, node: ast.Import, scope: Scope, guard: Guard) -> None:
        self.imports.append(Use(node, scope, guard))
        for alias in node.names:
            first = alias.name.split(".", 1)[0]
            self._imported(first)
            if alias.asname:
                scope.bind(alias.asname, alias.name, node.lineno)
            else:
                scope.bind(first, first, node.lineno)

    def _import_from(self, node: ast.ImportFrom, scope: Scope, guard: Guard) -> None:
        self.imports.append(Use(node, scope, guard))
        module = "" if node.level else node.module or ""
        self._imported(module.split(".", 1)[0])
        for alias in node.names:
            if alias.name != "*":
                meaning = f"{module}:{alias.name}" if module else OPAQUE
                scope.bind(alias.asname or alias.name, meaning, node.lineno)
            elif module.split(".", 1)[0] != "tools":
                self.is_dynamic = True

    def _imported(self, module: str) -> None:
        self.modules.add(module)
        if module in _DYNAMIC_MODULES:
            self.is_dynamic = True

    # Blocks

    def _function(self, node: Any, scope: Scope, guard: Guard) -> None:
        """`def`, `async def` and `lambda`: defaults, decorators and annotations belong outside."""
        arguments = node.args
        outer = scope
        inner = Scope(Kind.FUNCTION, scope, can_await=isinstance(node, ast.AsyncFunctionDef), node=node)
        if isinstance(node, ast.Lambda):
            self._stack.append((node.body, inner, guard))
        else:
            scope.bind(node.name, OPAQUE, node.lineno)
            scope.functions[node.name] = node
            self.functions.add(node.name)
            if inner.can_await:
                self.coroutines.add(node.name)
            outer = self._type_parameters(node, scope, guard)
            inner.parent = outer
            self._push(node.decorator_list, scope, guard)
            self._push(node.body, inner, UNGUARDED)
            self._push((node.returns,), outer, guard | self._annotation)
        self._push(arguments.defaults, scope, guard)
        self._push(arguments.kw_defaults, scope, guard)
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            inner.bind(argument.arg)
            if argument.annotation is not None:
                self._stack.append((argument.annotation, outer, guard | self._annotation))
        for argument in (arguments.vararg, arguments.kwarg):
            if argument is not None:
                inner.bind(argument.arg)
                self._push((argument.annotation,), outer, guard | self._annotation)

    def _class(self, node: ast.ClassDef, scope: Scope, guard: Guard) -> None:
        scope.bind(node.name, OPAQUE, node.lineno)
        self._push(node.decorator_list, scope, guard)
        outer = self._type_parameters(node, scope, guard)
        self._push(node.bases, outer, guard)
        self._push([keyword.value for keyword in node.keywords], outer, guard)
        self._push(node.body, Scope(Kind.CLASS, outer, node=node), guard)

    def _type_alias(self, node: Any, scope: Scope, guard: Guard) -> None:
        scope.bind(node.name.id, OPAQUE, node.lineno)
        self._stack.append((node.value, self._type_parameters(node, scope, guard), guard))

    def _type_parameters(self, node: Any, scope: Scope, guard: Guard) -> Scope:
        """A scope for `[T: int]`, which Python has from 3.12 on."""
        parameters = getattr(node, "type_params", None)
        if not parameters:
            return scope
        inner = Scope(Kind.FUNCTION, scope)
        for parameter in parameters:
            inner.bind(parameter.name)
            self._push((getattr(parameter, "bound", None), getattr(parameter, "default_value", None)), inner, guard)
        return inner

    def _comprehension(self, node: Any, scope: Scope, guard: Guard) -> None:
        inner = Scope(Kind.COMPREHENSION, scope, can_await=scope.can_await)
        self.most_loops = max(self.most_loops, len(node.generators))
        for index, loop in enumerate(node.generators):
            # Python evaluates the first iterable outside, the others inside.
            self._stack.append((loop.iter, inner if index else scope, guard))
            self._stack.append((loop.target, inner, guard))
            self._push(loop.ifs, inner, guard)
            self.spoiled.add(loop.iter)
            self.spoiled.update(loop.ifs)
            if loop.target.__class__ is ast.Name and not loop.is_async:
                inner.loops[loop.target.id] = loop.iter
        if node.__class__ is ast.DictComp:
            self._push((node.key, node.value), inner, guard)
        else:
            self._stack.append((node.elt, inner, guard))

    def _try(self, node: ast.Try, scope: Scope, guard: Guard) -> None:
        inside = guard
        if node.handlers:
            inside |= GUARDED
        for handler in node.handlers:
            if _speaks_of_names(handler.type):
                inside |= GUARDED_NAMES
            if handler.name:
                scope.bind(handler.name, OPAQUE, handler.lineno)
            self._push((handler.type,), scope, guard | MAYBE)
            self._push(handler.body, scope, guard | MAYBE)
        self._push(node.body, scope, inside)
        self._push(node.orelse, scope, guard)
        self._push(node.finalbody, scope, guard)
        if node.finalbody:
            self.tries_with_finally.append(node)

    def _with(self, node: ast.With | ast.AsyncWith, scope: Scope, guard: Guard) -> None:
        inside = guard
        for item in node.items:
            expression = item.context_expr
            self.spoiled.add(expression)
            self._push((expression, item.optional_vars), scope, guard)
            if isinstance(expression, ast.Call) and _last_name(expression.func) == "suppress":
                inside |= GUARDED | GUARDED_NAMES
        self._push(node.body, scope, inside)

    def _capture(self, node: ast.MatchAs | ast.MatchStar, scope: Scope, guard: Guard) -> None:
        self.captures += 1
        if node.name:
            scope.bind(node.name, OPAQUE, node.lineno)
        self._push((getattr(node, "pattern", None),), scope, guard)

    def _mapping(self, node: ast.MatchMapping, scope: Scope, guard: Guard) -> None:
        if node.rest:
            self.captures += 1
            scope.bind(node.rest, OPAQUE, node.lineno)
        self._children(node, scope, guard)

    def _return(self, node: ast.Return, scope: Scope, guard: Guard) -> None:
        if scope.kind is Kind.MODULE:
            self.top_level_returns.append(node)
        self._push((node.value,), scope, guard)

    # Values, and what is done to them

    def _call(self, node: ast.Call, scope: Scope, guard: Guard) -> None:
        self.calls.append(Use(node, scope, guard))
        push = self._stack.append
        push((node.func, scope, guard))
        for argument in node.args:
            push((argument, scope, guard))
        for keyword in node.keywords:
            push((keyword.value, scope, guard))

    def _await(self, node: ast.Await, scope: Scope, guard: Guard) -> None:
        self.awaited.add(node.value)
        self._stack.append((node.value, scope, guard))

    def _attribute(self, node: ast.Attribute, scope: Scope, guard: Guard) -> None:
        value = node.value
        (self.attributes if node.ctx.__class__ is ast.Load else self.set_attributes).add(node.attr)
        if value.__class__ is ast.Name and node.ctx.__class__ is ast.Load:
            self.attribute_uses.append(Use(node, scope, guard))
        if node.attr in _DYNAMIC_ATTRIBUTES or (
            node.ctx.__class__ is not ast.Load and value.__class__ is ast.Name and _last_name(value) == "tools"
        ):
            self.is_dynamic = True
        if node.attr not in COROUTINE_ATTRIBUTES and not node.attr.startswith(("_", "cr_")):
            self.spoiled.add(value)
        self._stack.append((value, scope, guard))

    def _subscript(self, node: ast.Subscript, scope: Scope, guard: Guard) -> None:
        self.spoiled.add(node.value)
        if (
            isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
            and isinstance(node.ctx, ast.Load)
        ):
            self.keys.append(Use(node, scope, guard))
        self._children(node, scope, guard)

    def _spoil_value(self, node: Any, scope: Scope, guard: Guard) -> None:
        """The node's `value` cannot be a coroutine: a dropped one, `x[...]`, `{x}` in text, `*x`."""
        self.spoiled.add(node.value)
        self._children(node, scope, guard)

    def _statement(self, node: ast.Expr, scope: Scope, guard: Guard) -> None:
        """An expression whose value nobody takes, unless it is the program's last."""
        value = node.value
        self.spoiled.add(value)
        if value.__class__ is ast.Call:
            self.dropped.append(Use(value, scope, guard))
        self._stack.append((value, scope, guard))

    def _spoil_operands(self, node: Any, scope: Scope, guard: Guard) -> None:
        self.spoiled.update((node.left, node.right) if node.__class__ is ast.BinOp else (node.operand,))
        if node.op.__class__ is ast.Sub:
            self.subtractions.append(Use(node, scope, guard))
        self._children(node, scope, guard)

    def _compare(self, node: ast.Compare, scope: Scope, guard: Guard) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.In | ast.NotIn):
                self.spoiled.add(right)
            elif not isinstance(operator, ast.Is | ast.IsNot):
                self.spoiled.update((left, right))
            left = right
        self._children(node, scope, guard)

    def _test(self, node: Any, scope: Scope, guard: Guard) -> None:
        self.spoiled.add(node.test)
        self._children(node, scope, guard)

    def _augment(self, node: ast.AugAssign, scope: Scope, guard: Guard) -> None:
        """`x += 1` reads `x` before it binds it."""
        self.spoiled.add(node.value)
        target = node.target
        if isinstance(target, ast.Name):
            scope.bind(target.id, OPAQUE, None)
            self.loads.setdefault(target.id, []).append(Use(target, scope, guard))
        else:
            self._stack.append((target, scope, guard))
        self._stack.append((node.value, scope, guard))

    def _if(self, node: ast.If, scope: Scope, guard: Guard) -> None:
        self.spoiled.add(node.test)
        inside = guard | MAYBE if _is_for_others(node.test) else guard
        self._stack.append((node.test, scope, guard))
        self._push(node.body, scope, inside)
        self._push(node.orelse, scope, inside)

    def _for(self, node: ast.For | ast.AsyncFor, scope: Scope, guard: Guard) -> None:
        self.spoiled.add(node.iter)
        if node.__class__ is ast.For and isinstance(node.target, ast.Name):
            scope.loops[node.target.id] = node.iter
        self._children(node, scope, guard)

    def _assign(self, node: Any, scope: Scope, guard: Guard) -> None:
        targets = node.targets if node.__class__ is ast.Assign else [node.target]
        value = node.value
        if len(targets) == 1 and targets[0].__class__ is ast.Name and value is not None:
            scope.values[targets[0].id] = value
        if isinstance(value, ast.Call):
            if any(isinstance(target, ast.Tuple | ast.List) for target in targets):
                self.spoiled.add(value)
            elif len(targets) == 1 and isinstance(targets[0], ast.Name):
                self.assigned.append((value, targets[0].id, scope))
        if node.__class__ is ast.AnnAssign:
            # Python evaluates the annotations of a function's own names never.
            unread = MAYBE if scope.kind is Kind.FUNCTION else self._annotation
            self._stack.append((node.annotation, scope, guard | unread))
            self._push((node.value, node.target), scope, guard)
            return
        self._children(node, scope, guard)

    def _constant(self, node: ast.Constant, _scope: Scope, _guard: Guard) -> None:
        value = node.value
        if value.__class__ is str and ".py" in value:
            self.names_modules = True

    def _leaf(self, _node: ast.AST, _scope: Scope, _guard: Guard) -> None:
        return

    _HANDLERS: ClassVar[dict[type[ast.AST], _Handler]] = {
        ast.Name: _name,
        ast.NamedExpr: _walrus,
        ast.Global: _declared,
        ast.Nonlocal: _declared,
        ast.Import: _import,
        ast.ImportFrom: _import_from,
        ast.FunctionDef: _function,
        ast.AsyncFunctionDef: _function,
        ast.Lambda: _function,
        ast.ClassDef: _class,
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.DictComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.Try: _try,
        ast.TryStar: _try,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.MatchAs: _capture,
        ast.MatchStar: _capture,
        ast.MatchMapping: _mapping,
        ast.Return: _return,
        ast.Call: _call,
        ast.Await: _await,
        ast.Attribute: _attribute,
        ast.Expr: _statement,
        ast.Subscript: _subscript,
        ast.FormattedValue: _spoil_value,
        ast.Starred: _spoil_value,
        ast.AugAssign: _augment,
        ast.BinOp: _spoil_operands,
        ast.UnaryOp: _spoil_operands,
        ast.Compare: _compare,
        ast.If: _if,
        ast.IfExp: _test,
        ast.While: _test,
        ast.Assert: _test,
        ast.For: _for,
        ast.AsyncFor: _for,
        ast.Assign: _assign,
        ast.AnnAssign: _assign,
        ast.Constant: _constant,
        **dict.fromkeys(_LEAVES, _leaf),
    }
    if hasattr(ast, "TypeAlias"):  # from Python 3.12 on
        _HANDLERS[ast.TypeAlias] = _type_alias


_FIELDS: Final[dict[type[ast.AST], tuple[str, ...]]] = {}


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """Fields of a kind of node that may hold nodes with something in them."""
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = tuple(field for field in kind._fields if field not in _EMPTY_NODES)
    return found


def _speaks_of_names(handled: ast.expr | None) -> bool:
    kinds = handled.elts if isinstance(handled, ast.Tuple) else [handled]
    return any(isinstance(kind, ast.Name) and kind.id in {"NameError", "AttributeError"} for kind in kinds)


def _postpones_annotations(tree: ast.Module) -> bool:
    for node in tree.body[:3]:  # after a docstring, and among others from there
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            return any(alias.name == "annotations" for alias in node.names)
    return False


def _is_for_others(test: ast.expr) -> bool:
    """A branch for type checkers, or for another version or system than this."""
    if isinstance(test, ast.UnaryOp):
        test = test.operand
    if isinstance(test, ast.Constant):
        return True
    stack: list[ast.AST] = [test]
    while stack:  # `ast.walk` takes four times as long
        node = stack.pop()
        if _last_name(node) in _OTHERS:
            return True
        for field in _fields(node.__class__):
            value = getattr(node, field, None)
            if value.__class__ is list:
                stack.extend(item for item in value if isinstance(item, ast.AST))
            elif isinstance(value, ast.AST):
                stack.append(value)
    return False


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
