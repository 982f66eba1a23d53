"""Flow of values through a program: one walk in the order of the text, which finds uses that no value of a type allows.

A name has the type of its last binding; where branches meet, what they agree on; in a loop that binds it none; in
another function what all its bindings agree on. Judges only what is certain to fail when a run comes to it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from toolfold.program.rules.analysis import Analysis
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.value_expressions import ANY_KEY, ITEMS, Expressions, parameters_of
from toolfold.program.rules.value_types import NONE, Type, join, join_all, of_method
from toolfold.program.syntax_facts import (
    CATCHES_KEYS,
    GUARDED,
    Function,
    Guard,
    Kind,
    NodeUse,
    Scope,
    is_generator,
    last_name,
)

_MOST_ROUNDS: Final = 4


def type_faults(program: Analysis) -> Iterator[Fault]:
    """Faults in no order."""
    if not any(tool.output_schema for tool in program.tools.values()):
        return
    unsure: frozenset[str] = frozenset()
    for _ in range(_MOST_ROUNDS):
        flow = _Flow(program, unsure)
        try:
            flow.walk()
        except RecursionError:
            return
        if flow.stored <= unsure or not flow.reports:
            break
        unsure |= flow.stored
    else:
        return
    for fault, guard in flow.reports:
        use = _use_of(fault.node, program)
        if use is not None and _fails(fault, use._replace(node=fault.node), guard, program):
            yield fault._replace(node=getattr(fault.node, "slice", fault.node)) if guard == CATCHES_KEYS else fault


def _fails(fault: Fault, use: NodeUse, guard: Guard, program: Analysis) -> bool:
    """Whether a run comes to a use, or may come to it by a test that is not about the value."""
    if program.runs(use, guard):
        return True
    if not program.may_come_to(use, guard):
        return False
    names = {node.id for node in ast.walk(use.node) if isinstance(node, ast.Name)}
    for test in () if "did you mean" in fault.message else program.tests_before(use):
        # `row["age"] > 3` says nothing about what `row` is, but may well say what keys it has.
        parts = {node.value for node in ast.walk(test) if isinstance(node, ast.Subscript) and guard != CATCHES_KEYS}
        if any(isinstance(node, ast.Name) and node.id in names and node not in parts for node in ast.walk(test)):
            return False
    return True


def _use_of(top: ast.AST, program: Analysis) -> NodeUse | None:
    """The scope and the `try` of a node, from a name, an attribute or a call in it."""
    for node in ast.walk(top):
        uses: Iterable[NodeUse] = ()
        match node:
            case ast.Name(id=name):
                uses = program.names.loads.get(name, ())
            case ast.Attribute(attr=name):
                uses = program.names.attributes.get(name, ())
            case ast.Call():
                uses = program.reader.calls
        for use in uses:
            if use.node is node:
                return use
    return None


class _Flow(Expressions):
    """Statements, functions and branches. Handlers of statements say whether they end their block."""

    def __init__(self, program: Analysis, unsure: frozenset[str]) -> None:
        super().__init__(program, unsure)
        self._results: dict[ast.AST, Type] = {}
        self._returned: list[Type] = []
        self._exits: list[dict[str, Type]] = []
        self._stored_names: dict[ast.AST, set[str]] = {}

    def walk(self) -> None:
        self._block(self._program.tree.body)
        scopes = [scope for scope in self._program.reader.root.scopes if isinstance(scope.node, Function)]
        for scope in scopes:
            self._function(scope, {})
        self._is_settled = True
        for scope in scopes:
            arguments = self._arguments_of(scope)
            is_method = scope.parent is not None and scope.parent.kind is Kind.CLASS
            if any(arguments.values()) or (is_method and any(self._attributes.values())):
                self._function(scope, arguments)
        classes = [scope for scope in self._program.reader.root.scopes if scope.kind is Kind.CLASS]
        for name in self._changed_attributes:
            value = self._attributes.get(name)
            if value is None or value.schema is not None:
                self.stored.update((ANY_KEY, ITEMS))
            elif value.name != "dict" or value.fields or value.item or any(name in scope.bound for scope in classes):
                self.stored.add(ITEMS)

    def _function(self, scope: Scope, arguments: Mapping[str, Type]) -> Type:
        """Walk a function's body; the type that all its returns agree on."""
        node = scope.node
        assert isinstance(node, Function)
        before = self._scope, self._names, self._inner, self._returned, self._exits
        self._scope, self._inner, self._returned, self._exits = scope, [], [], []
        self._names = dict.fromkeys(parameters_of(node)) | dict(arguments)
        if not self._block(node.body):
            self._returned.append(NONE)
        result = join_all(self._returned)
        self._scope, self._names, self._inner, self._returned, self._exits = before
        return result

    def result_of(self, function: Function) -> Type:
        if function not in self._results:
            self._results[function] = None  # while it is looked for: it may call itself
            scope = next((scope for scope in self._program.reader.root.scopes if scope.node is function), None)
            if scope is not None and not (self._has_generators and is_generator(function)):
                was_quiet, self._is_quiet = self._is_quiet, True
                self._results[function] = self._function(scope, {})
                self._is_quiet = was_quiet
        return self._results[function]

    def _arguments_of(self, scope: Scope) -> dict[str, Type]:
        """Types of parameters, of a function that is only ever called by its name."""
        node = scope.node
        assert isinstance(node, Function)
        if scope.parent is None or scope.parent.kind is Kind.CLASS or node.decorator_list:
            return {}
        if not all(use.node in self._program.callees for use in self._program.names.loads.get(node.name, ())):
            return {}
        return {name: self._arguments.get((node, name)) for name in parameters_of(node) if name not in self._opaque}

    # Statements

    def _block(self, statements: list[ast.stmt]) -> bool:
        for statement in statements:
            handler = _STATEMENTS.get(statement.__class__)
            if handler is None:
                for child in ast.iter_child_nodes(statement):
                    if isinstance(child, ast.expr):
                        self.type_of(child)
            elif handler(self, statement):
                return True
        return False

    def _assignment(self, node: ast.Assign) -> None:
        value = self.type_of(node.value)
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method))
            ) if name == owner:
                before = self._bindings.get((self._scope, name))
                result = None if before is None else of_method(before, method)
                if result is not None and result.source:
                    call = f"{name}.{method}(...)"
                    message = f"{method!r} changes {name!r} and gives None; write {call} without '{name} ='"
                    self._report(node.value, message, before, GUARDED)
                    value = None
        for target in node.targets:
            self.assign(target, value, node.value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.type_of(node.value), node.value)

    def _augmented(self, node: ast.AugAssign) -> None:
        target, right = node.target, (node.value, self.type_of(node.value))
        if isinstance(target, ast.Subscript):
            load = ast.Subscript(value=target.value, slice=target.slice, ctx=ast.Load())
            before = self.type_of(ast.copy_location(load, target))
            self.store(target, self.operate(node, (target, before), right))
        elif isinstance(target, ast.Name):
            before = self._name(target)
            if before is not None and before.name == "list" and isinstance(node.op, ast.Add):
                self._grow(before, self.each(*right), target)
            elif isinstance(node.op, ast.BitOr):
                self.update(before, [right[1]])
            else:
                self.bind(target.id, self.operate(node, (target, before), right))
        else:
            self.type_of(target)

    def _if(self, node: ast.If) -> bool:
        self.type_of(node.test)
        before = dict(self._names)
        states = [] if self._block(node.body) else [self._names]
        self._names = before
        if not self._block(node.orelse):
            states.append(self._names)
        self._names = _meet(states) if states else self._names
        return not states

    def _loop(self, node: Any) -> bool:
        exits, self._exits = self._exits, []
        element, is_endless = None, False
        if isinstance(node, ast.For):
            element = self.each(node.iter, self.type_of(node.iter))
        # Names that a loop binds have no certain type at the start of a round.
        for name in self._stores(node) & self._names.keys():
            self._names[name] = None
        before = dict(self._names)
        if isinstance(node, ast.While):
            self.type_of(node.test)
            breaks = any(isinstance(inner, ast.Break) for inner in ast.walk(node))
            is_endless = isinstance(node.test, ast.Constant) and bool(node.test.value) and not breaks
        else:
            self.assign(node.target, element, node.iter)
        if not self._block(node.body):
            self._exits.append(self._names)
        self._names = _meet([before, *self._exits])
        self._exits = exits
        return self._block(node.orelse) or is_endless

    def _stores(self, node: ast.AST) -> set[str]:
        names = self._stored_names.get(node)
        if names is None:
            nodes = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
            names = self._stored_names[node] = {inner.id for inner in nodes if not isinstance(inner.ctx, ast.Load)}
        return names

    def _leave(self, _node: ast.Break | ast.Continue) -> bool:
        self._exits.append(dict(self._names))
        return True

    def _return(self, node: ast.Return) -> bool:
        self._returned.append(NONE if node.value is None else self.type_of(node.value))
        return True

    def _raise(self, node: ast.Raise) -> bool:
        if node.exc is not None:
            self.type_of(node.exc)
        return True

    def _try(self, node: ast.Try) -> bool:
        before = dict(self._names)
        states = [] if self._block(node.body) or self._block(node.orelse) else [self._names]
        unsure = before | dict.fromkeys(name for statement in node.body for name in self._stores(statement))
        for handler in node.handlers:
            self._names = unsure | ({handler.name: None} if handler.name else {})
            if not self._block(handler.body):
                states.append(self._names)
        self._names = _meet(states) if states else unsure
        return self._block(node.finalbody) or not states

    def _with(self, node: ast.With | ast.AsyncWith) -> bool:
        is_caught = False
        for item in node.items:
            self.type_of(item.context_expr)
            is_caught = is_caught or last_name(getattr(item.context_expr, "func", item.context_expr)) == "suppress"
            if item.optional_vars is not None:
                self.assign(item.optional_vars, None, item.context_expr)
        ends = self._block(node.body)
        if is_caught:
            self._names |= dict.fromkeys(self._stores(node))
        return ends and not is_caught

    def _match(self, node: ast.Match) -> None:
        """Nothing is certain of what it is about, and of what it binds."""
        self.type_of(node.subject)
        names = {getattr(inner, "id", None) or getattr(inner, "name", None) for inner in ast.walk(node)}
        states = [self._names | dict.fromkeys(name for name in names if name)]
        for case in node.cases:
            self._names = dict(states[0])
            if not self._block(case.body):
                states.append(self._names)
        self._names = _meet(states)

    def _definition(self, node: Any) -> None:
        for expression in (*node.decorator_list, *(node.args.defaults if isinstance(node, Function) else ())):
            self.type_of(expression)
        self.bind(node.name, None)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self.bind(alias.asname or alias.name.split(".", 1)[0], None)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.bind(target.id, None)


def _meet(states: list[dict[str, Type]]) -> dict[str, Type]:
    """Names after one of several ways; on a way that does not bind a name it cannot be read."""
    names = dict(states[0])
    for state in states[1:]:
        for name, value in state.items():
            names[name] = join(names[name], value) if name in names else value
    return names


# Any: the handlers in a table take the node type that they are listed under.
_STATEMENTS: Final[dict[type[ast.stmt], Callable[[_Flow, Any], Any]]] = {
    ast.Assign: _Flow._assignment, ast.AnnAssign: _Flow._annotated, ast.AugAssign: _Flow._augmented, ast.If: _Flow._if,
    ast.For: _Flow._loop, ast.AsyncFor: _Flow._loop, ast.While: _Flow._loop, ast.Break: _Flow._leave,
    ast.Continue: _Flow._leave, ast.Return: _Flow._return, ast.Raise: _Flow._raise, ast.Try: _Flow._try,
    ast.TryStar: _Flow._try, ast.With: _Flow._with, ast.AsyncWith: _Flow._with, ast.Match: _Flow._match,
    ast.FunctionDef: _Flow._definition, ast.AsyncFunctionDef: _Flow._definition, ast.ClassDef: _Flow._definition,
    ast.Import: _Flow._import, ast.ImportFrom: _Flow._import, ast.Delete: _Flow._delete,
}  # fmt: skip
