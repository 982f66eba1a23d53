"""Calls in a flow graph: arguments to parameters, results back, and what libraries do with what they are given."""

import ast
import builtins
import sys
from typing import Any, Final

from toolfold_guest.shared.call_style import AWAITERS
from toolfold_guest.shared.flow_graph import Box, Cell, FlowGraph, FlowValue, Site

_GATHERERS: Final = AWAITERS | {"run_coroutine_threadsafe", "Task", "start_soon", "run", "run_until_complete"}
_RUNNERS: Final = frozenset({"run", "run_until_complete"})
_THREADS: Final = frozenset({"to_thread", "run_in_executor", "run_sync"})
_QUIET_ASYNC: Final = frozenset(
    {"Queue", "PriorityQueue", "LifoQueue", "Semaphore", "BoundedSemaphore", "Lock", "Event", "Condition", "sleep",
     "TaskGroup", "Runner", "get_event_loop", "get_running_loop", "new_event_loop", "Barrier"}
)  # fmt: skip
_ASYNC_MODULES: Final = frozenset({"asyncio", "anyio", "trio", "uvloop", "inspect", "types", "nest_asyncio"})
_LIBRARIES: Final = frozenset(
    {"pd", "np", "plt", "pandas", "numpy", "matplotlib", "scipy", "sklearn", "statsmodels", "PIL", "rich", "tabulate",
     "tqdm", "yaml", "pydantic", "seaborn", "sns", "dateutil", "pytz", "sympy", "networkx", "openpyxl", "ToolError",
     "display", "final_answer"}
)  # fmt: skip
_BUILTINS: Final = frozenset(dir(builtins))
_DECORATORS: Final = frozenset({"functools", "dataclasses", "collections", "contextlib", "typing", "enum", "abc"})
"""Modules that keep functions, and call none at once."""
_INVOKERS: Final = frozenset({"map", "filter", "sorted", "min", "max", "iter"})
_PLAIN_RESULTS: Final = frozenset(
    {"print", "len", "str", "repr", "int", "float", "bool", "format", "round", "abs", "isinstance", "hash", "ord",
     "chr", "range", "any", "all", "type", "open", "input", "hasattr", "issubclass", "bytes"}
)  # fmt: skip
"""Builtins that give nothing back of what they are given."""
_STORING: Final = frozenset(
    {"append", "add", "extend", "insert", "update", "setdefault", "put", "put_nowait", "appendleft", "extendleft",
     "push", "__setitem__"}
)  # fmt: skip
_PLAIN_METHODS: Final = frozenset(
    {"join", "format", "write", "startswith", "endswith", "split", "replace", "strip", "count", "index", "execute",
     "remove", "discard", "writelines", "writerow", "writerows", "encode", "lower", "upper"}
)  # fmt: skip

CONTAINER_METHODS: Final = _STORING | _PLAIN_METHODS | {
    "pop", "get", "values", "items", "keys", "copy", "sort", "reverse", "clear", "popleft", "popitem", "get_nowait",
}  # fmt: skip


class CallBinding(FlowGraph):
    """A flow graph with the calls of a program."""

    def _apply(self, value: Any, site: Site) -> None:
        """A value is called."""
        if isinstance(value, Box):
            for _, cell in site.arguments:
                self._spread(cell, value.any_key)
            value.everything.read(site.result.add)
            return
        match value.kind:
            case "reference":
                call = FlowValue("pending", site.node if site.node in self._sites else None, value.node)
                self._pending[call] = None
                site.result.add(call)
            case "function":
                self._pass(value, site)
            case "class":
                self._create(value.node, site)
            case "instance":
                self._attribute("__call__").read(lambda method: self._apply(method, site))
            case "library":
                self._call_library(value.node, site)
            case "unknown":
                for _, cell in site.arguments:
                    cell.read(self._hand_out)
                site.result.add(value)
            case "future":
                value.node.read(site.result.add)
            case "coroutine":
                pass

    def _pass(self, value: FlowValue, site: Site) -> None:
        """Arguments to the parameters of a function of the program, and what it gives back."""
        arguments: ast.arguments = value.node.args
        scope = self._scopes[value.node]
        positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)][value.other :]
        names = {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}
        rest = self._box(arguments.vararg).any_key if arguments.vararg else None
        keywords = self._box(arguments.kwarg).any_key if arguments.kwarg else None
        position = 0
        for keyword, cell in site.arguments:
            if keyword in ("*", "**"):
                targets = [scope.cells[name] for name in (positional[position:] if keyword == "*" else names)]
                targets += [box for box in (rest if keyword == "*" else keywords,) if box is not None]
            elif keyword:
                targets = [scope.cells[keyword]] if keyword in names else [keywords] if keywords else []
            else:
                targets = [scope.cells[positional[position]]] if position < len(positional) else [rest] if rest else []
                position += 1
            for target in targets:
                cell.read(target.add)
        self._give_result(value.node, site.result, site.node if site.node in self._sites else None)

    def _give_result(self, node: Any, result: Cell, site: ast.Call | None) -> None:
        scope = self._scopes[node]
        self._callers.setdefault(node, {})[site] = None
        assert scope.returns is not None
        if scope.yields is not None:
            result.add(scope.yields)
            scope.returns.read(scope.yields.any_key.add)
        elif isinstance(node, ast.AsyncFunctionDef):
            call = FlowValue("coroutine", site, node)
            self._pending[call] = None
            result.add(call)
        else:
            scope.returns.read(result.add)

    def _pass_all(self, method: Any, cells: list[Cell], result: Cell) -> None:
        """Code that is not in the text calls a function with any of these."""
        if isinstance(method, Box):
            return
        if method.kind == "reference":
            call = FlowValue("pending", None, method.node)
            self._pending[call] = None
            result.add(call)
        elif method.kind == "function":
            for argument in parameters_of(method.node.args):
                for cell in cells:
                    self._spread(cell, self._scopes[method.node].cells[argument.arg])
            self._give_result(method.node, result, None)

    def _store(self, receiver: Cell, cell: Cell, key: Any = None) -> None:
        def read(value: Any) -> None:
            if isinstance(value, Box):
                cell.read((value.any_key if key is None else value.field(key)).add)
            elif value.kind == "pending":
                cell.read(self._reply(value).any_key.add)
            elif value.kind == "unknown":
                cell.read(self._hand_out)
            elif value.kind == "instance":
                self._attribute("__setitem__").read(lambda method: self._pass_all(method, [cell], self._cell()))

        receiver.read(read)

    def _create(self, node: ast.ClassDef, site: Site) -> None:
        instance = FlowValue("instance", node)
        site.result.add(instance)
        methods = [
            part for part in node.body if isinstance(part, ast.FunctionDef) and part.name in ("__init__", "__new__")
        ]
        if methods:
            for part in methods:
                parameters = parameters_of(part.args)
                if parameters:
                    self._scopes[part].cells[parameters[0].arg].add(instance)
                self._pass(FlowValue("function", part, 1), site._replace(result=self._cell()))
            return
        box = self._box(site.node)
        site.result.add(box)
        for _, cell in site.arguments:
            cell.read(box.any_key.add)
        cells = [site.result, *(cell for _, cell in site.arguments)]
        for name in ("__init__", "__post_init__"):
            self._attribute(name).read(lambda method: self._pass_all(method, cells, self._cell()))

    def _call_method_of(self, value: Any, name: str, site: Site) -> None:
        """A method of a container."""
        if not isinstance(value, Box):
            if value.kind == "pending":
                self._call_method_of(self._reply(value), name, site)
            return
        if name in _GATHERERS or name in _THREADS:
            self._call_library(f"asyncio.{name}", site)
            return
        if value.is_queue and name in ("get", "join"):
            site.result.add(FlowValue("future", value.everything if name == "get" else self._cell()))
            return
        if name not in _PLAIN_METHODS and not value.is_queue:
            value.everything.read(site.result.add)
            box = self._box(site.node, is_nested=True)
            site.result.add(box)
            value.everything.read(box.any_key.add)
        if name not in _STORING:
            self._call_plain(site, [cell for _, cell in site.arguments if name not in _PLAIN_METHODS])
        else:
            for _, cell in site.arguments:
                cell.read(value.any_key.add)
                if name not in ("append", "add", "put", "put_nowait", "appendleft"):
                    self._items(cell, into=value.any_key)

    def _call_plain(self, site: Site, cells: list[Cell], *, invokes: bool = True) -> None:
        """It may give back any argument, in whatever container, and call what can be called."""
        box = self._box(site.node, is_nested=True)
        for cell in cells:
            self._spread(cell, site.result)
            self._spread(cell, box.any_key)
            if invokes:
                cell.read(lambda value: self._pass_all(value, cells, box.any_key))
        site.result.add(box)

    def _call_library(self, name: str, site: Site) -> None:
        cells = [cell for _, cell in site.arguments]
        root, last = name.partition(".")[0], name.rpartition(".")[2]
        if name in _PLAIN_RESULTS:
            text = ast.unparse(site.node) if name in ("isinstance", "hasattr") else ""
            if "wait" in text or "orout" in text:  # it asks whether it has to await
                for cell in cells:
                    cell.read(self._hand_out)
        elif name == "getattr":
            self._get_attribute(site)
        elif name == "setattr":
            for cell in cells[2:]:
                cell.read(self._hand_out)
        elif name in ("globals", "locals", "vars"):
            box = self._box(site.node)
            site.result.add(box)
            box.any_key.add(FlowValue("reference", site.node))
            for cell in list(self._module.cells.values()):
                cell.read(box.any_key.add)
        elif root not in _ASYNC_MODULES:
            self._call_plain(site, cells, invokes=name not in _BUILTINS - _INVOKERS and root not in _DECORATORS)
        elif last in _THREADS:
            self._call_plain(site._replace(result=(results := self._cell())), cells)
            inner = self._cell()
            self._items(results, into=inner)
            site.result.add(FlowValue("future", inner))
        elif last in _GATHERERS:
            self._gather(last, site, cells)
        elif last in _QUIET_ASYNC:
            box = self._box(site.node)
            box.is_queue = last.endswith("Queue")
            site.result.add(box)
        else:
            for cell in cells:
                cell.read(self._hand_out)

    def _gather(self, name: str, site: Site, cells: list[Cell]) -> None:
        results = self._cell()
        for cell in cells:
            self._await_deeply(cell, results)
        box = self._box(site.node)
        if name in _RUNNERS:
            results.read(site.result.add)
        elif name == "as_completed":
            box.any_key.add(FlowValue("future", results))
            site.result.add(box)
        elif name == "wait":
            box.any_key.add(box)
            box.any_key.add(FlowValue("future", results))
            whole = self._cell()
            whole.add(box)
            site.result.add(FlowValue("future", whole))
        elif name == "gather":
            results.read(box.any_key.add)
            whole = self._cell()
            whole.add(box)
            site.result.add(FlowValue("future", whole))
        else:
            site.result.add(FlowValue("future", results))

    def _get_attribute(self, site: Site) -> None:
        if not site.arguments:
            return
        receiver = site.arguments[0][1]

        def read(value: Any) -> None:
            if isinstance(value, Box):
                value.everything.read(site.result.add)
            elif value.kind == "module":
                site.result.add(FlowValue("reference", site.node))
            elif value.kind in ("unknown", "library"):
                site.result.add(FlowValue("unknown"))

        receiver.read(read)
        for name in self._own_attributes:
            self._attribute(name).read(site.result.add)
        for _, cell in site.arguments[2:]:
            cell.read(site.result.add)


def library_value(path: str, *, is_name: bool = False) -> FlowValue:
    """What a name stands for that the program does not define."""
    root = path.partition(".")[0]
    if root in sys.stdlib_module_names or root in _LIBRARIES or root in _ASYNC_MODULES or root in _BUILTINS:
        return FlowValue("library", path)
    return FlowValue("unknown", root if is_name else path)


def parameters_of(arguments: ast.arguments) -> list[ast.arg]:
    rest = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]
