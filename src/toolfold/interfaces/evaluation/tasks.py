"""Tasks of an evaluation, their checks and their results.

A YAML file has `tools` and a list of `tasks`; in a JSON Lines file each line is one task.
Pure but for reading the file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

# PyYAML ships no types, and its stubs are no dependency of ours.
import yaml  # type: ignore[import-untyped]

from toolfold.errors import UsageError
from toolfold.models import Json

Half: TypeAlias = Literal["develop", "report"]
Mode: TypeAlias = Literal["direct", "programs", "both"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
Failure: TypeAlias = Literal["", "no call", "program", "state", "calls", "answer", "requests", "context"]

_NUMBER: Final = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")
_MISSING: Final = object()


class AnswerCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model's last text must say, in any wording."""

    contains: list[str] = []
    """Each as a whole word, in upper or lower case."""
    lacks: list[str] = []
    number: float | None = None
    """One of the numbers in it, to the cent."""

    def failure(self, text: str) -> str:
        for part in self.contains:
            if not _has_word(text, part):
                return f"the answer does not say {part!r}"
        for part in self.lacks:
            if _has_word(text, part):
                return f"the answer says {part!r}"
        numbers = [float(match.replace(",", "")) for match in _NUMBER.findall(text)]
        if self.number is not None and all(abs(number - self.number) > 0.0051 for number in numbers):
            return f"the answer does not say the number {self.number:g}"
        return ""


class CallPattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls of a tool; of the arguments only those are compared that are given here."""

    tool: str
    arguments: dict[str, Json] = {}

    def matches(self, tool: str, arguments: Mapping[str, Json]) -> bool:
        return fnmatchcase(tool, self.tool) and all(
            same_value(arguments.get(name, _MISSING), value) for name, value in self.arguments.items()
        )


class CallsCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls succeeded, whether the model or a program made them."""

    include: list[CallPattern] = []
    exclude: list[CallPattern] = []
    most: int | None = None

    def failure(self, calls: Sequence[tuple[str, Mapping[str, Json]]]) -> str:
        for pattern in self.include:
            if not any(pattern.matches(*call) for call in calls):
                return f"{pattern.tool!r} was not called with {pattern.arguments}"
        for pattern in self.exclude:
            if any(pattern.matches(*call) for call in calls):
                return f"{pattern.tool!r} was called with {pattern.arguments}"
        if self.most is not None and len(calls) > self.most:
            return f"{len(calls)} calls were made, at most {self.most} are right"
        return ""


class StateCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that is called at the end, and what it must return."""

    tool: str
    arguments: dict[str, Json] = {}
    path: str = ""
    """Keys and indexes into the reply, with dots between them."""
    equals: Json = None

    def failure(self, reply: Json) -> str:
        value = value_at(reply, self.path)
        place = f"{self.tool}(…){f'.{self.path}' if self.path else ''}"
        return "" if same_value(value, self.equals) else f"{place} is {value!r}, not {self.equals!r}"


class TaskChecks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes a run of the task a success; all that are given must hold."""

    answer: AnswerCheck | None = None
    calls: CallsCheck | None = None
    state: list[StateCheck] = []
    changes: dict[str, Json] | None = None
    """Of the object `state` of the tools file: every value that differs from the start, by its path, and no other.
    `null` stands for what is gone."""


class EvalTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task."""

    id: str
    prompt: str | list[str]
    """Several texts are said one after the other, each when the model has answered the one before."""
    checks: TaskChecks
    kind: str = "task"
    """The group that it is counted in."""
    tools: str | list[str] = []
    """Python files or a `toolfold.yaml`, relative to the task file; by default those of the command."""
    max_requests: int = 12

    @property
    def turns(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    @property
    def half(self) -> Half:
        """To develop with, or to report: by its id alone, so that it never moves."""
        return "report" if zlib.crc32(self.id.encode()) % 2 else "develop"

    def tool_sources(self) -> tuple[str, ...]:
        return (self.tools,) if isinstance(self.tools, str) else tuple(self.tools)


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one run of a task: a line of the results file."""

    task: str
    mode: Mode
    run: int
    kind: str
    tools: str
    """Label of the tool set."""
    half: str
    passed: bool
    failure: Failure = ""
    reason: str = ""
    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    price: float | None = None
    """US dollars; `None` if unknown."""
    seconds: float = 0.0
    model_seconds: float = 0.0
    calls: int = 0
    """Of tools, with those of programs."""
    direct_calls: int = 0
    """Those that the model made itself."""
    programs: int = 0
    failed_programs: int = 0
    """Also those that the check rejected."""
    replaced_tools: int = 0
    """Programs that defined a tool anew, with data of their own."""
    calls_in_text: int = 0
    """Calls that the model wrote as JSON into its text, not as calls; they are served."""
    answer: str = ""
    transcript: list[dict[str, Json]] = []

    @property
    def key(self) -> tuple[str, str, int]:
        return self.task, self.mode, self.run


class TaskFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A YAML file of tasks."""

    tasks: list[EvalTask]
    tools: str | list[str] = []


def read_tasks(paths: Sequence[Path]) -> list[EvalTask]:
    """The tasks of all files, in order.

    Raises:
        UsageError: a file has a mistake; the text says where.
    """
    tasks: list[EvalTask] = []
    ids: set[str] = set()
    for path in paths:
        for place, task in _tasks_in(path):
            reason = _mistake(task, ids)
            if reason:
                raise UsageError(f"{place}: {reason}")
            ids.add(task.id)
            folder = path.parent
            sources = [str(folder / source) if _is_path(source) else source for source in task.tool_sources()]
            tasks.append(msgspec.structs.replace(task, tools=sources))
    return tasks


def _mistake(task: EvalTask, ids: set[str]) -> str:
    checks = task.checks
    if task.id in ids:
        return f"the id {task.id!r} is already used; ids must be unique"
    if not all(turn.strip() for turn in task.turns or [""]):
        return f"task {task.id!r} has no prompt"
    if task.max_requests < 1:
        return f"task {task.id!r}: max_requests must be at least 1, got {task.max_requests}"
    # One of default values holds whatever happens.
    has_calls, has_answer = checks.calls not in (None, CallsCheck()), checks.answer not in (None, AnswerCheck())
    if not (has_answer or has_calls or checks.state or checks.changes is not None):
        return f"task {task.id!r} has no check; add answer, calls, state or changes to its checks"
    return ""


def unknown_tools(task: EvalTask, names: Sequence[str]) -> Iterator[str]:
    """Tools that the task's checks name and that are not there: such a check would never hold, or always."""
    calls = task.checks.calls or CallsCheck()
    patterns = [*(pattern.tool for pattern in (*calls.include, *calls.exclude)), *(c.tool for c in task.checks.state)]
    return (pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names))


def _is_path(source: str) -> bool:
    return source.endswith((".py", ".yaml", ".yml")) or "/" in source


def _tasks_in(path: Path) -> Iterator[tuple[str, EvalTask]]:
    name = repr(str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"tasks {name} cannot be read: {reason.lower()}") from error
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                place = f"{name} line {number}"
                try:
                    yield place, msgspec.json.decode(line, type=EvalTask)
                except msgspec.MsgspecError as error:
                    raise UsageError(f"{place}: {_plain(error)}") from error
        return
    try:
        document = yaml.safe_load(text)
        file = msgspec.convert(document, TaskFile)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{name}{line}: {getattr(error, 'problem', None) or 'it is not YAML'}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{name}: {_plain(error)}{_task_id(document, str(error))}") from error
    for task in file.tasks:
        yield name, task if task.tools else msgspec.structs.replace(task, tools=file.tools)


def _plain(error: Exception) -> str:
    text = str(error).replace("Object missing required field", "missing key").replace("Object contains unknown field",
        "unknown key")  # fmt: skip
    return text.replace(" - at `$.", " at `").replace("`", "'")


# Any: whatever the YAML has.
def _task_id(document: Any, text: str) -> str:
    match = re.search(r"\$\.tasks\[(\d+)\]", text)
    task = document["tasks"][int(match[1])] if match else None
    return f" (task {task['id']!r})" if isinstance(task, dict) and "id" in task else ""


# ----------------------------------------------------------------------------------------------------
# Values and their differences.


def value_at(value: Json, path: str) -> Json:
    """What is there, or `None`."""
    for key in filter(None, path.split(".")):
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def differences(before: Json, after: Json) -> dict[str, Json]:
    """Each value of `after` that differs, by its path; what is gone is `None`."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return {path: new.get(path) for path in (*new, *old) if not same_value(old.get(path), new.get(path))}


def change_failure(expected: Mapping[str, Json], actual: Mapping[str, Json]) -> str:
    leaves = {f"{path}.{inner}".rstrip("."): leaf for path, value in expected.items() for inner, leaf in _leaves(value)}
    for path in (*leaves, *actual):
        if not same_value(leaves.get(path), actual.get(path)) or (path in leaves and path not in actual):
            value = f"{actual[path]!r}" if path in actual else "unchanged"
            return (
                f"state {path} is {value}, not {leaves[path]!r}" if path in leaves else f"state {path} became {value}"
            )
    return ""


def _leaves(value: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{index}" if path else str(index))
    else:
        yield path, value


# Any: a value, or a sign that there is none.
def same_value(value: Any, expected: Any) -> bool:
    """Texts may differ in case and in the space around them: a model copies them from a sentence."""
    if isinstance(value, str) and isinstance(expected, str):
        return value.strip().casefold() == expected.strip().casefold()
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, int | float) and isinstance(expected, int | float):
        return abs(value - expected) < 0.0051
    return bool(value == expected)


def _has_word(text: str, part: str) -> bool:
    pattern = rf"(?<!\w){re.escape(part.casefold())}(?!\w)"
    return re.search(pattern, text.casefold()) is not None
