"""Reachability of code: what every run comes to, what depends on a branch, and what never runs.

Only what the text shows counts: constants decide branches, calls and mentions bring functions to life.
Nothing here knows names, tools or values of replies.
"""

from __future__ import annotations

import ast
import itertools
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import Final

from toolfold.program.reader import ProgramReader
from toolfold.program.syntax_facts import (
    GUARDED,
    MAYBE,
    WITHIN,
    Function,
    Guard,
    Kind,
    NodeUse,
    Scope,
    fields_of,
    is_generator,
    last_name,
)

_line_of: Final = operator.attrgetter("lineno")
LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_CALLED_FOR_CERTAIN: Final = frozenset({"__init__", "__new__", "__post_init__", "__enter__", "__aenter__"})
"""Methods that run wherever their class is used; `__str__` and its like may never be called."""
_FEW: Final = 20
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BLOCKS: Final = ("body", "orelse", "finalbody")
_MOST_STEPS: Final = 1_000_000
_ERROR_ATTRIBUTES: Final = frozenset({"exception", "wait", "done", "add_done_callback"})
"""What a task raises may become a value by these, or by `gather(..., return_exceptions=True)`."""
_QUIET: Final = frozenset({"assertRaises", "assertRaisesRegex", "raises", "Thread", "Timer", "register"})
"""Functions that call others where an exception ends nothing."""


class Reach(IntEnum):
    """How certain it is that a run comes to some code."""

    NEVER = 0
    BRANCH = 1
    """On a branch that depends on what is not in the text."""
    LIKELY = 2
    """Unless a guard before it (`if not rows: return`) ends the function or the program."""
    CERTAIN = 3


class Reachability:
    """Judges places in one program, within a budget: after that, nothing is certain."""

    def __init__(self, tree: ast.Module, reader: ProgramReader) -> None:
        self.tree, self.reader, self.names = tree, reader, reader.names
        self._budget = _MOST_STEPS
        self._outer: dict[ast.AST, ast.AST] = {}
        self._functions: dict[tuple[ast.AST, Guard], Reach] = {}
        self._methods: dict[tuple[str, Guard], Reach] = {}
        self._after: dict[ast.stmt, Reach] = {}

    # Places: the nodes around another

    def outer(self, node: ast.AST) -> ast.AST:
        """The node around one; of the statements of the program only those are read that somebody asks about."""
        if node not in self._outer:
            body, line = self.tree.body, getattr(node, "lineno", 0)
            last = bisect_right(body, line, key=_line_of)
            first = bisect_left(body, _line_of(body[last - 1]), key=_line_of) if last else 0
            self._read_statements(body[first:last])
            if node not in self._outer:  # a decorator, or in an f-string, whose parts may have other lines
                self._read_statements(body)
        return self._outer.get(node, self.tree)

    def _read_statements(self, statements: list[ast.stmt]) -> None:
        stack: list[ast.AST] = [statement for statement in statements if statement not in self._outer]
        self._outer.update(dict.fromkeys(stack, self.tree))
        for node in stack:
            for field in fields_of(node.__class__):
                value = getattr(node, field, None)
                for child in value if value.__class__ is list else (value,):
                    if isinstance(child, ast.AST):
                        self._outer[child] = node
                        stack.append(child)

    def path_to(self, node: ast.AST, top: ast.AST | None = None) -> list[ast.AST]:
        """The nodes around one, from a statement of the program, or of the function or class `top`, inwards."""
        path: list[ast.AST] = []
        while (outer := self.outer(node)) not in (self.tree, top) and self._budget > 0:
            path.append(outer)
            node, self._budget = outer, self._budget - 1
        return path[::-1]

    def around(self, use: NodeUse) -> list[ast.AST]:
        """The nodes around a use, from the statement of its function or of the program inwards."""
        return self.path_to(use.node, self._top_of(use.scope))

    def _top_of(self, scope: Scope | None) -> ast.AST:
        """The function that a scope is in, or the program."""
        while scope is not None and not isinstance(scope.node, Function):
            scope = scope.parent
        return self.tree if scope is None or scope.node is None else scope.node

    def stands_in_branch(self, node: ast.AST) -> bool:
        return any(isinstance(outer, ast.If | ast.IfExp) for outer in self.path_to(node))

    def value_of(self, node: ast.expr, scope: Scope) -> ast.expr | None:
        """The value that a name certainly has where it is read: of its one assignment, or of the last one before."""
        owner = scope.find(node.id) if isinstance(node, ast.Name) else None
        if owner is None or owner.kind not in (Kind.MODULE, Kind.FUNCTION) or not isinstance(node, ast.Name):
            return None
        if node.id in owner.declarations:
            return None
        if node.id not in owner.rebound:
            return owner.values.get(node.id)
        if owner is not scope or any(node.id in inner.declarations for inner in owner.scopes):
            return None
        return self._value_before(node)

    def _value_before(self, node: ast.Name) -> ast.expr | None:
        inner: ast.AST = node
        while inner is not self.tree:
            outer = self.outer(inner)
            for block in _blocks(outer):
                if inner not in block:
                    continue
                for statement in reversed(block[: block.index(inner)]):
                    match statement:
                        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == node.id:
                            return value
                    if _binds(statement, node.id):
                        return None
                if isinstance(outer, Function | ast.Module) or (
                    not isinstance(outer, ast.If) and _binds(outer, node.id)
                ):
                    return None
            inner = outer
        return None

    # Whether a run comes to a place

    def runs(self, use: NodeUse, guard: Guard = GUARDED) -> bool:
        """Whether the code that a use stands in is run when the program is, as far as anyone can see.

        Not in a `try` that may catch what `guard` says.
        """
        return self.reach(use, guard) >= Reach.LIKELY

    def may_come_to(self, use: NodeUse, guard: Guard) -> bool:
        """Whether its function runs, and a branch in that may come to the use."""
        if self._reach_of_scopes(use, guard) < Reach.LIKELY:
            return False
        if any(isinstance(outer, ast.Lambda) for outer in self.around(use)):
            return False
        return self.reach_within(self._top_of(use.scope), use.node) > Reach.NEVER

    def tests_before(self, use: NodeUse) -> Iterator[ast.expr]:
        """Tests that decide whether its function comes to a use."""
        for outer, inner in pairwise([*self.around(use), use.node]):
            match outer:
                case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if inner is not test:
                    yield test
                case ast.BoolOp(values=values):
                    yield from (value for value in values if value is not inner)
                case ast.match_case() | ast.Match():
                    yield from (node for node in ast.walk(outer) if isinstance(node, ast.expr))
            for loop in getattr(outer, "generators", ()):
                yield from loop.ifs

    def reach(self, use: NodeUse, guard: Guard = GUARDED) -> Reach:
        reach = self._reach_of_scopes(use, guard)
        return reach and min(reach, self.reach_within(self._top_of(use.scope), use.node))

    def _reach_of_scopes(self, use: NodeUse, guard: Guard) -> Reach:
        """The reach of the function of a use."""
        if use.guard & (guard | MAYBE) or (use.guard & WITHIN and self._has_own_managers):
            return Reach.NEVER
        if self._awaited is not None and isinstance(use.node, ast.Call) and use.node not in self._awaited:
            return Reach.NEVER
        scope: Scope | None = use.scope
        reach = Reach.CERTAIN
        while scope is not None and reach:
            if isinstance(scope.node, Function):
                reach = min(reach, self._reach_of_function(scope.node, scope.parent, guard))
            scope = scope.parent
        return reach

    def may_be_uncalled(self, node: ast.AST) -> bool:
        """Whether it is a function that a statement calls for its effect, in a loop which may have no round."""
        steps = [*self.path_to(node), node]
        outer_steps = [step for step in steps[:-1] if not isinstance(step, ast.Await)]
        is_effect = len(outer_steps) > 1 and isinstance(outer_steps[-2], ast.Expr)
        if not is_effect or getattr(outer_steps[-1], "func", None) is not node:
            return False
        for outer, inner in pairwise(steps):
            if isinstance(outer, ast.For | ast.AsyncFor) and inner is not outer.iter:
                if not self._has_rounds(outer.iter):
                    return True
            elif isinstance(outer, _COMPREHENSIONS) and not isinstance(inner, ast.comprehension):
                return not all(self._has_rounds(loop.iter) for loop in outer.generators)
        return False

    def _has_rounds(self, source: ast.expr) -> bool:
        return isinstance(source, ast.List | ast.Tuple | ast.Dict | ast.Set) or self.constant(source) is True

    def reach_within(self, top: ast.AST, node: ast.AST) -> Reach:
        """The reach of a node, once its function or the program begins."""
        steps = [top, *self.path_to(node, top), node]
        if self._budget <= 0:
            return Reach.NEVER
        reach, before, call = Reach.CERTAIN, None, None
        for outer, inner in pairwise(steps):
            for block in _blocks(outer):
                if inner in block:
                    before_it = block[: block.index(inner)]
                    reach = min((reach, *map(self._reach_after, before_it)))
            if outer is not top:
                is_argument = isinstance(before, ast.Call | ast.keyword | ast.Starred) and not _may_drop(call)
                reach = min(reach, self._reach_of_step(outer, inner, is_argument=is_argument))
            before, call = outer, outer if isinstance(outer, ast.Call) else call
        return reach

    def _reach_after(self, statement: ast.stmt) -> Reach:
        if statement not in self._after:
            self._after[statement] = self._judge_end(statement)
        return self._after[statement]

    def _judge_end(self, statement: ast.stmt) -> Reach:
        if statement in self.returns:
            return Reach.NEVER
        match statement:
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return Reach.NEVER
            case ast.Expr(value=value) if _is_exit(value):
                return Reach.NEVER
            case ast.While(test=test) if self.constant(test) and not _breaks(statement):
                return Reach.NEVER
            case ast.If(test=test, body=body, orelse=orelse):
                blocks = [min(map(self._reach_after, block), default=Reach.CERTAIN) for block in (body, orelse)]
                is_true = self.constant(test)
                if is_true is not None:
                    return blocks[not is_true]
                return Reach.LIKELY if min(blocks) < max(blocks) else min(blocks)
        return Reach.LIKELY if _may_end_early(statement, self.returns) else Reach.CERTAIN

    def _reach_of_step(self, outer: ast.AST, inner: ast.AST, *, is_argument: bool) -> Reach:
        match outer:
            case ast.If() | ast.IfExp() | ast.While() if inner is not outer.test:
                is_true = self.constant(outer.test)
                in_body = inner is outer.body or (isinstance(outer.body, list) and inner in outer.body)
                if is_true is not None and not (isinstance(outer, ast.While) and not in_body):
                    return Reach.CERTAIN if is_true == in_body else Reach.NEVER
                return Reach.CERTAIN if isinstance(outer, ast.While) and in_body else Reach.BRANCH
            case ast.BoolOp() if inner is not outer.values[0]:
                tests = [self.constant(value) for value in itertools.takewhile(lambda x: x is not inner, outer.values)]
                is_or = isinstance(outer.op, ast.Or)
                return Reach.NEVER if is_or in tests else Reach.BRANCH if None in tests else Reach.CERTAIN
            case ast.For(body=body) if inner in body:
                return Reach.NEVER if self.constant(outer.iter) is False else Reach.CERTAIN
            case ast.For(orelse=orelse) | ast.AsyncFor(orelse=orelse) if inner in orelse:
                return Reach.BRANCH if _breaks(outer) else Reach.CERTAIN
            case ast.Compare(comparators=[_, *later]) if inner in later:
                return Reach.BRANCH
            case ast.Try(handlers=[_, *_]) | ast.TryStar():  # what stands before it may raise, and be caught
                if inner is outer.body[0]:
                    return Reach.CERTAIN
                return Reach.BRANCH if inner in outer.orelse else Reach.LIKELY
            case ast.Call(func=function) if inner is not function and last_name(function) in _QUIET:
                return Reach.NEVER
            case ast.Assert(msg=message) if inner is message:
                return Reach.BRANCH
            case ast.match_case():
                return Reach.BRANCH
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() if not isinstance(
                inner, ast.comprehension
            ):
                if any(self.constant(loop.iter) is False for loop in outer.generators):
                    return Reach.NEVER
                is_lazy = isinstance(outer, ast.GeneratorExp) and not is_argument
                return Reach.BRANCH if is_lazy or any(loop.ifs for loop in outer.generators) else Reach.CERTAIN
            case ast.Lambda() if not is_argument:
                return Reach.BRANCH
        return Reach.CERTAIN

    # Values that the text decides

    def constant(self, test: ast.expr) -> bool | None:
        """The truth of a test that depends on constants alone; `None` for any other."""
        try:
            return bool(self._value(test, 0))
        except (_Unknown, TypeError, ValueError, OverflowError):
            return None

    # object: whatever a constant of the program is.
    def _value(self, node: ast.expr, depth: int) -> object:
        if depth > _FEW:
            raise _Unknown
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id="__name__"):
                return "__main__"
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                return False
            case ast.Name(id=name):
                return self._only_value(name)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._value(operand, depth + 1)
            case ast.BoolOp(op=kind, values=values):
                return _join([self.constant(value) for value in values], is_or=isinstance(kind, ast.Or))
            case ast.Compare(left=first, ops=[kind], comparators=[second]) if type(kind) in _COMPARE:
                return _COMPARE[type(kind)](self._value(first, depth + 1), self._value(second, depth + 1))
            case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
                return ()
            case ast.Call(func=ast.Name(id="list" | "dict" | "set" | "tuple"), args=[], keywords=[]):
                return ()
            case ast.Call(func=ast.Name(id="range" | "len" as name), args=[argument]):
                return _MEASURE[name](self._value(argument, depth + 1))
        raise _Unknown

    def _only_value(self, name: str) -> object:
        """The constant that a name of the module is bound to, once; of a list or a dict the content may change."""
        root = self.reader.root
        value = root.values.get(name)
        is_bound_elsewhere = any(name in scope.bound for scope in root.scopes if scope is not root)
        if not isinstance(value, ast.Constant) or is_bound_elsewhere or name in root.rebound:
            raise _Unknown
        return value.value

    # Functions

    def _reach_of_function(self, node: Function, owner: Scope | None, guard: Guard) -> Reach:
        reach = self._functions.get((node, guard))
        if reach is None:
            # While it is looked for: a function that only calls itself is not used.
            self._functions[node, guard] = Reach.NEVER
            reach = Reach.NEVER if owner is None else self._reach_of_name(node.name, owner, guard)
            if any(map(_is_use, node.decorator_list)):
                reach = Reach.NEVER if self._may_catch(node) else Reach.BRANCH  # it may call it, keep it or drop it
            if owner is not None:
                top = owner.node if isinstance(owner.node, Function | ast.ClassDef) else self.tree
                reach = min(reach, self.reach_within(top, node))
            if is_generator(node):
                reach = min(reach, Reach.LIKELY)  # to call it runs nothing of it
            self._functions[node, guard] = reach
        return reach

    def _may_catch(self, node: Function) -> bool:
        """Whether a decorator of the program's own has a `try`, so that nothing in the function need end it."""
        names = {last_name(part.func if isinstance(part, ast.Call) else part) for part in node.decorator_list}
        return any(
            isinstance(inner, ast.Try) and inner.handlers
            for scope in self.reader.root.scopes
            if isinstance(scope.node, Function | ast.ClassDef) and scope.node.name in names
            for inner in ast.walk(scope.node)
        )

    def _reach_of_name(self, name: str, owner: Scope, guard: Guard, *, needs_no_call: bool = False) -> Reach:
        while owner.kind is Kind.FUNCTION and owner.node is None and owner.parent is not None:
            owner = owner.parent  # the scope of type parameters
        if owner.kind is Kind.CLASS:
            if not isinstance(owner.node, ast.ClassDef) or owner.parent is None:
                return Reach.NEVER
            is_implied = name in _CALLED_FOR_CERTAIN
            reach = Reach.CERTAIN if is_implied else self._reach_of_method(name, guard)
            reach_of_class = self._reach_of_name(owner.node.name, owner.parent, guard, needs_no_call=not is_implied)
            return min(reach, reach_of_class)
        uses = self.names.loads.get(name, [])
        own_uses = (use for use in uses if use.scope.find(name) is owner)
        return self._best(own_uses, guard, needs_no_call=needs_no_call)

    def _reach_of_method(self, method: str, guard: Guard) -> Reach:
        """Of living code that reads an attribute of that name."""
        uses = self.names.attributes.get(method, [])
        if not uses or method.startswith("__"):
            return Reach.NEVER
        key = method, guard
        if key not in self._methods:
            self._methods[key] = Reach.NEVER  # while it is looked for: a method that only itself asks for is unused
            if not self._is_ambiguous(method):
                self._methods[key] = Reach.LIKELY if len(uses) > _FEW else self._best(iter(uses), guard)
        return self._methods[key]

    def _best(self, uses: Iterator[NodeUse], guard: Guard, *, needs_no_call: bool = False) -> Reach:
        best = Reach.NEVER
        for use in uses:
            reach = self.reach(use, guard)
            if use.node not in self._called:
                name = getattr(use.node, "id", "")
                is_caught = self._awaited is not None and name in self.names.coroutines
                reach = Reach.NEVER if is_caught else reach if needs_no_call else min(reach, Reach.BRANCH)
            best = max(best, reach)
            if best is Reach.CERTAIN:
                break
        return best

    @cached_property
    def texts(self) -> set[str]:
        """Texts and keywords that stand elsewhere than in the place of a key that is read."""
        nodes = list(ast.walk(self.tree))
        keys = {node.slice for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)}
        texts = {node.value for node in nodes if isinstance(node, ast.Constant) and node not in keys}
        keywords = {keyword.arg for use in self.reader.calls for keyword in use.node.keywords}
        return {text for text in texts | keywords if isinstance(text, str)}

    @cached_property
    def _awaited(self) -> set[ast.expr] | None:
        """The only calls whose errors are certainly raised; `None` for all."""
        is_collected = not _ERROR_ATTRIBUTES.isdisjoint(self.names.attributes) or any(
            keyword.arg == "return_exceptions" for use in self.reader.calls for keyword in use.node.keywords
        )
        return self.reader.values.awaited if is_collected else None

    @cached_property
    def _has_own_managers(self) -> bool:
        names = self.names
        makers = ("contextmanager", "asynccontextmanager")
        is_made = any(name in names.loads or name in names.attributes for name in makers)
        return is_made or not names.functions.isdisjoint({"__exit__", "__aexit__"})

    @cached_property
    def _called(self) -> set[ast.expr]:
        """What is called at once, with an effect at once; a mere mention of a function may never call it."""
        awaited, coroutines = self.reader.values.awaited, self.names.coroutines
        return {
            use.node.func
            for use in self.reader.calls
            if last_name(use.node.func) not in coroutines
            or use.node in awaited
            or (self._awaited is None and not self._is_idle(use.node))
        }

    def _is_idle(self, call: ast.Call) -> bool:
        """Whether its value goes nowhere, or into a name."""
        outer = self.outer(call)
        is_kept = isinstance(outer, ast.Assign) and len(outer.targets) == 1 and isinstance(outer.targets[0], ast.Name)
        is_dropped = isinstance(outer, ast.Expr) and outer not in self.returns
        return is_kept or is_dropped or (isinstance(outer, ast.AnnAssign) and isinstance(outer.target, ast.Name))

    @cached_property
    def returns(self) -> set[ast.AST]:
        """Top-level `return` statements, which the check has made expressions."""
        return set(self.reader.shape.top_level_returns)

    def _is_ambiguous(self, method: str) -> bool:
        """Whether several classes have a method of that name, so that nobody knows whose is asked for."""
        classes = (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))
        names = [getattr(statement, "name", "") for node in classes for statement in node.body]
        return names.count(method) > 1


class _Unknown(Exception):
    """The text alone does not say; never leaves this module."""


_MEASURE: Final[dict[str, Callable[..., object]]] = {"range": range, "len": len}
_USING: Final = frozenset(
    {"Counter", "all", "any", "dict", "extend", "frozenset", "fsum", "gather", "join", "list", "max", "mean", "median",
     "min", "print", "reduce", "set", "sort", "sorted", "sum", "tuple"}
)  # fmt: skip
"""Functions that use up a generator, or call a key function, at once."""
_COMPARE: Final[dict[type[ast.cmpop], Callable[..., object]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip


def _join(tests: list[bool | None], *, is_or: bool) -> bool:
    if is_or in tests:
        return is_or
    if None in tests:
        raise _Unknown
    return not is_or


def _is_use(decorator: ast.expr) -> bool:
    """Whether a decorator may call what it decorates, or keep it for others to call."""
    return not (isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod", "property"))


def _may_drop(call: ast.AST | None) -> bool:
    """Whether a call may leave a function unused that it is given, as `d.get(key, lambda: ...)` and `map` do."""
    if not isinstance(call, ast.Call) or last_name(call.func) not in _USING:
        return True
    return any(isinstance(argument, ast.List | ast.Tuple) and not argument.elts for argument in call.args)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for field in _BLOCKS:
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield block


def _binds(statement: ast.AST, name: str) -> bool:
    """Whether anything in a statement may bind a name."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            return True
        if name in (getattr(node, "name", None), getattr(node, "asname", None), getattr(node, "rest", None)):
            return True
    return False


def _is_exit(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="exit" | "quit") | ast.Attribute(attr="exit" | "_exit")):
            return True
    return False


def _breaks(loop: ast.AST) -> bool:
    return any(isinstance(node, ast.Break) for node in ast.walk(loop))


def _may_end_early(statement: ast.stmt, returns: set[ast.AST]) -> bool:
    """Whether it may leave the block it stands in; not by the functions and classes in it."""
    stack: list[tuple[ast.AST, bool]] = [(statement, False)]
    while stack:
        node, in_loop = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.Return() | ast.Raise():
                return True
            case ast.Break() | ast.Continue() if not in_loop:
                return True
        if _is_exit(node) or node in returns:
            return True
        in_loop = in_loop or isinstance(node, LOOPS)
        stack.extend((child, in_loop) for child in ast.iter_child_nodes(node))
    return False
