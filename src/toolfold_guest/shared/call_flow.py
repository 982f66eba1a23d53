"""Flow of calls that a program does not await: which of them something may await later, and which nothing can.

Pure: a tree in, nodes of it out. An abstract interpretation of the whole program, without order and without branches:

1. Each expression and variable is a cell that collects abstract values: calls that are not made yet, coroutines of the
   program's own functions, functions, tools, containers. Values flow along assignments, arguments, returns and items.
2. A call that reaches an `await`, a function that awaits it, or code that is not in the text may be awaited: it stays
   as it is. Any other is made where it stands, for not to await it could only be a mistake.
3. Where the analysis does not know, it lets values flow further, or takes them for awaited.
"""

import ast
from collections.abc import Container, Iterator
from typing import Any, Final

from toolfold_guest.shared.flow_calls import CONTAINER_METHODS
from toolfold_guest.shared.flow_graph import Box, FlowValue
from toolfold_guest.shared.flow_syntax import SyntaxFlow

_DISPLAYS: Final = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BinOp, ast.ListComp, ast.DictComp)
_C_METHODS: Final = frozenset({"join", "write", "writelines", "writerow", "writerows", "execute", "executemany"})
_C_MODULES: Final = frozenset(
    {"re", "math", "statistics", "decimal", "Decimal", "fractions", "Fraction", "datetime", "date", "timedelta", "time",
     "pandas", "pd", "numpy", "np", "base64", "hashlib", "csv", "html", "io", "textwrap", "struct", "zlib", "sqlite3",
     "os", "pathlib", "Path", "uuid", "urllib", "unicodedata", "difflib", "string", "xml", "ipaddress", "zoneinfo"}
)  # fmt: skip
"""What reads its arguments in C, where a call cannot stand for its value."""


class CallFlow(SyntaxFlow):
    """What to make in place in one program.

    Args:
        tree: The program.
        tools: The names under which it can call tools.
    """

    def __init__(self, tree: ast.Module, tools: Container[str]) -> None:
        super().__init__(tree, tools)
        self._settle()
        self._call_unknown()
        self._keep_choices()

    def sites_in_place(self) -> Iterator[tuple[ast.Call, bool]]:
        """Calls that nothing can await, and whether `await` may stand there."""
        by_site: dict[ast.Call, list[FlowValue]] = {}
        for value in self._pending:
            if value.node is not None:
                by_site.setdefault(value.node, []).append(value)
        for node, values in by_site.items():
            is_async = self._sites[node][0]
            is_coroutine = any(value.kind == "coroutine" for value in values)
            is_pending = any(value.kind == "pending" and not self._is_synchronous(value.other) for value in values)
            if any(map(self._may_be_awaited, values)) or not (is_pending or is_coroutine):
                continue
            callers = [node] if is_async else self._callers.get(self._returned.get(node, node), {None: None})
            # Where the function only gives the call back, whoever calls it can await it.
            if all(map(self._can_await, callers)):
                yield from ((caller, True) for caller in callers if caller is not None)
            elif is_pending:
                yield node, False

    def _can_await(self, caller: ast.Call | None) -> bool:
        if caller is None or not self._sites[caller][0]:
            return False
        return not any(value in self._awaited for value in self._sites[caller][1].result.values)

    def lists(self, names: Container[str]) -> Iterator[tuple[ast.ListComp, bool]]:
        """List comprehensions of nothing but calls of these tools, and whether something may await them."""
        sites = {value.node for value in self._pending}
        for node in self._comprehensions:
            call = node.elt
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names:
                others = [value for value in self._pending if value.node is call]
                inner = [part for part in ast.walk(node) if isinstance(part, ast.Await) or part in sites]
                if others and inner == [call]:
                    yield node, any(map(self._may_be_awaited, others))

    def synchronous_names(self) -> list[ast.Name]:
        """Tools handed to code that is not in the text and awaits nothing."""
        names = {value.other for value in self._pending if value.kind == "pending" and value.node is None}
        return [
            node
            for node in names
            if isinstance(node, ast.Name) and not any(map(self._may_be_awaited, self._calls_by(node)))
        ]

    def awaitable_references(self) -> list[ast.Attribute | ast.Call]:
        """`tools.x`, and `getattr(tools, x)`, whose calls something may await."""
        nodes = dict.fromkeys(value.other for value in self._pending if self._is_synchronous(value.other))
        return [node for node in nodes if any(map(self._may_be_awaited, self._calls_by(node)))]

    def dropped(self) -> Iterator[ast.Expr]:
        """Statements that are only an expression, with calls that something else may await."""
        for statement in self._statements:
            is_method = getattr(getattr(statement.value, "func", None), "attr", "") in CONTAINER_METHODS
            if not is_method and any(map(self._holds_call, self._cells[statement.value].values)):
                yield statement

    def value_uses(self) -> Iterator[ast.expr]:
        """Expressions that may hold a call, where only its value can be meant."""
        for node, (_, site) in self._sites.items():
            function = node.func
            is_method = isinstance(function, ast.Attribute) and function.attr in _C_METHODS
            if is_method or _root_name(function) in _C_MODULES:
                expressions = [*node.args, *(keyword.value for keyword in node.keywords)]
                for expression, (_, cell) in zip(expressions, site.arguments, strict=True):
                    if any(map(self._holds_call, cell.values)):
                        yield expression
        for subject in self._subjects:
            if any(value in self._pending and self._holds_call(value) for value in self._cells[subject].values):
                yield subject

    def _calls_by(self, reference: Any) -> list[FlowValue]:
        return [value for value in self._pending if value.other is reference]

    def _may_be_awaited(self, value: FlowValue) -> bool:
        return self._all_awaited or value in self._awaited

    def _is_synchronous(self, reference: Any) -> bool:
        """Attributes of `tools` are synchronous unless the compiler makes them something else."""
        return isinstance(reference, ast.Attribute) or (
            isinstance(reference, ast.Call) and getattr(reference.func, "id", "") == "getattr"
        )

    def _holds_call(self, value: Any) -> bool:
        visited = {id(value)}
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Box):
                waiting += [item for item in value.everything.values if id(item) not in visited]
                visited.update(map(id, value.everything.values))
            elif value.kind == "pending" and self._may_be_awaited(value):
                return True
        return False

    def _call_unknown(self) -> None:
        """Calls of what nothing is known of."""
        for site in [site for _, site in self._sites.values() if not self._cells[site.node.func].values]:
            if site.receiver is None:
                self._apply(FlowValue("unknown"), site)
            elif not site.receiver.values:
                name = site.node.func.attr  # type: ignore[attr-defined]  # an attribute has a receiver
                self._call_method_of(Box(self._work), name, site)
        self._settle()

    def _keep_choices(self) -> None:
        """Where one of the calls in a container or among arguments may be awaited, the program chooses among them."""
        displays = [box.everything.values for node, box in self._boxes.items() if isinstance(node, _DISPLAYS)]
        arguments = [
            [value for _, cell in site.arguments for value in cell.values]
            for _, site in self._sites.values()
            if len(site.arguments) > 1
        ]
        for values in (*displays, *arguments):
            calls = [value for value in values if value in self._pending]
            if any(map(self._may_be_awaited, calls)):
                self._awaited.update(dict.fromkeys(calls))


def _root_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
