"""Multi-turn tasks of the Berkeley function calling benchmark, with the backends that execute their calls.

`bfcl-eval` is fetched with pip into a folder of its own, without its dependencies: only its data and
its backends are used, and of their needs only mpmath.
"""

import ast
import copy
import importlib
import inspect
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.savings.task import GoldCall, Task, Turn, logged
from toolfold.models import ToolSpec
from toolfold.tools.tool import Tool, python_name

HOME = Path(__file__).parents[2] / "build" / "peers" / "bfcl"
CATEGORIES = ("multi_turn_base", "multi_turn_long_context")
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


def fetch() -> None:
    """Install what is needed, once, and make it importable.

    Raises:
        SystemExit: The benchmark is not available. Without a tokenizer there is an estimate instead.
    """
    if not _installed("requirements.txt", "the tasks"):
        raise SystemExit("NOT RUN: bfcl-eval could not be installed with pip; the lines above say why")
    _installed("tokenizer.txt", "a tokenizer")
    if str(HOME) not in sys.path:
        sys.path.append(str(HOME))  # last: nothing of it may stand before our own packages


def _installed(requirements: str, what: str) -> bool:
    file, stamp = Path(__file__).with_name(requirements), HOME / f".{requirements}"
    wanted = f"# Python {sys.version_info.major}.{sys.version_info.minor}\n{file.read_text('utf-8')}"
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return True
    print(f"fetching {what} into build/peers/bfcl (once)", file=sys.stderr)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*install, "--upgrade", "--target", str(HOME), "-r", str(file)], check=False)
    if done.returncode == 0:
        stamp.write_text(wanted, "utf-8")
    return done.returncode == 0


def tasks() -> Iterator[Task]:
    """All of the categories; `fetch` first."""
    config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
    data = HOME / "bfcl_eval" / "data"
    documents = {
        name: [*_rows(data / "multi_turn_func_doc" / file)]
        for name, file in config.MULTI_TURN_FUNC_DOC_FILE_MAPPING.items()
        if name in config.CLASS_FILE_PATH_MAPPING
    }
    for category in CATEGORIES:
        answers = {row["id"]: row["ground_truth"] for row in _rows(data / f"possible_answer/BFCL_v4_{category}.json")}
        for row in _rows(data / f"BFCL_v4_{category}.json"):
            specs = [
                _spec(document)
                for name in row["involved_classes"]
                for document in documents[name]
                if document["name"] not in row.get("excluded_function", ())
            ]
            yield _task(category, row, answers[row["id"]], specs)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text("utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def _task(category: str, row: dict[str, Any], answer: list[list[str]], specs: list[ToolSpec]) -> Task:
    by_name = {spec.name: spec for spec in specs}
    turns = [
        Turn(
            said="\n".join(message["content"] for message in said),
            calls=[_call(text, by_name) for text in texts],
        )
        for said, texts in zip(row["question"], answer, strict=True)
    ]
    return Task(
        name=row["id"],
        group=category,
        turns=turns,
        specs=specs,
        world=lambda: Backends(row, specs, is_long=category.endswith("long_context")),
    )


def _call(text: str, specs: Mapping[str, ToolSpec]) -> GoldCall:
    """`sort('a.txt')` as a name and its arguments by name."""
    node = ast.parse(text.strip(), mode="eval").body
    assert isinstance(node, ast.Call), text
    assert isinstance(node.func, ast.Name), text
    positional = dict(zip(specs[node.func.id].parameters, map(ast.literal_eval, node.args), strict=False))
    keywords = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    return GoldCall(node.func.id, {**positional, **keywords})


def _spec(document: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        name=document["name"],
        python_name=python_name(document["name"]),
        description=document["description"],
        input_schema=_schema(document["parameters"]),
        output_schema=_schema(document["response"]) if "response" in document else None,
    )


def _schema(node: Any) -> Any:
    """The benchmark's own type names as those of JSON Schema."""
    if isinstance(node, list):
        return [_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    kind = node.get("type")
    plain = {key: _schema(value) for key, value in node.items()}
    return {**plain, "type": _TYPES.get(kind, kind)} if isinstance(kind, str) else plain


class Backends:
    """The stateful APIs of one task, as it finds them."""

    def __init__(self, row: dict[str, Any], specs: list[ToolSpec], *, is_long: bool) -> None:
        self.log: list[tuple[str, dict[str, Any], Any]] = []
        self._specs = specs
        self._apis = [_api(name, row["initial_config"], is_long=is_long) for name in row["involved_classes"]]

    def tools(self) -> list[Tool]:
        return [logged(self._tool(spec), self.log) for spec in self._specs]

    def _tool(self, spec: ToolSpec) -> Tool:
        method = next(getattr(api, spec.name) for api in self._apis if hasattr(api, spec.name))

        # Async, though the backend is not: in a thread, calls of one request could overtake each other.
        async def call(arguments: Mapping[str, Any]) -> Any:
            try:
                return _as_json(method(**arguments))
            except Exception as error:  # noqa: BLE001  # as the benchmark does: what went wrong is the result
                return f"Error during execution: {error}"

        return Tool(spec=spec, call=call)

    def state(self) -> Any:
        return [_state(api, set()) for api in self._apis]


def _api(name: str, configs: dict[str, Any], *, is_long: bool) -> Any:
    config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
    api = getattr(importlib.import_module(config.CLASS_FILE_PATH_MAPPING[name]), name)()
    if name not in config.STATELESS_CLASSES:
        api._load_scenario(copy.deepcopy(configs.get(name, {})), long_context=is_long)
    return api


def _as_json(result: Any) -> Any:
    try:
        return json.loads(json.dumps(result))
    except TypeError:
        return str(result)


def _state(thing: Any, above: set[int]) -> Any:
    if isinstance(thing, random.Random):
        return thing.getstate()
    if isinstance(thing, Mapping):
        return {str(key): _state(value, above) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_state(value, above) for value in thing]
    if isinstance(thing, datetime):  # when a file was changed: never the same twice
        return "a time"
    if not hasattr(thing, "__dict__") or inspect.ismodule(thing):
        return repr(thing)
    if id(thing) in above:  # a folder knows the folder that it is in
        return "above"
    return type(thing).__name__, _state(vars(thing), above | {id(thing)})
