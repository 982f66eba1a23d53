"""Tool that runs programs, independent of the framework: its description, its schema and its answers."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from toolfold.errors import EngineCrashed, UsageError
from toolfold.execution.described_files import DescribedFiles
from toolfold.interfaces.tool_prompt import (
    OFFERED_RULE,
    bash_rule,
    language_of,
    small_tools,
    tools_text,
    with_language,
    without_offered,
)
from toolfold.models import Json, Language, Limits, Outcome, ProgramOptions, Reply, RunNames, ToolSpec, Value
from toolfold.outcome_views import describe_media, images_in
from toolfold.prompts.schema_types import text_schema
from toolfold.prompts.wording import first_line, lessons
from toolfold.runtime import Runtime
from toolfold.tools.learned_replies import ToolLessons

# ----------------------------------------------------------------------------------------------------
# An outcome or a reply as what a model reads: text, and pictures beside it. Knows no framework.

TRUNCATED: Final = "\n... (truncated)"
NOTHING_CALLED: Final = "The program was not started and no tool was called. Correct it and send it again."
_LONGEST_VALUE_CHARACTERS: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture, as all of these frameworks take it."""

    mime: str
    base64: str

    @property
    def url(self) -> str:
        return f"data:{self.mime};base64,{self.base64}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """Answer for the model."""

    text: str
    images: tuple[Image, ...] = ()
    has_failed: bool = False

    @property
    def text_alone(self) -> str:
        """For messages that take text only: pictures are counted."""
        return f"{self.text}\n(images not shown here: {len(self.images)})" if self.images else self.text


def render_outcome(outcome: Outcome) -> ModelAnswer:
    """What a program printed and its value; where it did not finish, why, and what that means for a next try."""
    parts = _success(outcome) if outcome.status == "finished" else _failure(outcome)
    files = (f"File: {file.name} ({file.mime}, {file.size} bytes)" for file in outcome.files)
    return ModelAnswer(
        text="\n".join(filter(None, [first_line(outcome), *parts, *lessons(outcome), *files])) or "(no output)",
        images=_images(images_in(outcome.value, outcome.files)),
        has_failed=outcome.status != "finished",
    )


def render_reply(reply: Reply) -> ModelAnswer:
    if reply.error is not None:
        return ModelAnswer(text=reply.error, has_failed=True)
    return ModelAnswer(text=_value_text(reply.value), images=_images(images_in(reply.value)))


def render_crash(error: EngineCrashed) -> ModelAnswer:
    """A guest that died: the model must know what may have happened before it tries again."""
    text = f"The program was lost: {error}"
    if error.started:
        text += f"\nTools that were called and may have run: {', '.join(error.started)}"
    return ModelAnswer(text=text, has_failed=True)


def _success(outcome: Outcome) -> Iterator[str]:
    yield _stdout(outcome)
    if outcome.value is not None:
        yield f"Value: {_value_text(outcome.value)}" if outcome.stdout.strip() else _value_text(outcome.value)


def _failure(outcome: Outcome) -> Iterator[str]:
    message = outcome.problem.message if outcome.problem is not None else ""
    match outcome.status:
        case "rejected":
            yield f"{outcome.problem}\n{NOTHING_CALLED}"
        case "timeout":
            yield f"The program was stopped: {message or 'it took too long'}"
        case "cancelled":
            yield "The program was stopped before its end."
        case _:
            traceback = outcome.stderr.rstrip("\n") + (TRUNCATED if outcome.stderr_cut_bytes else "")
            yield traceback
            # A traceback ends with its message; a limit has none, or one of something else.
            yield message if message not in traceback else ""
    if outcome.stdout.strip():
        yield f"Output before that:\n{_stdout(outcome)}"


def _stdout(outcome: Outcome) -> str:
    text = outcome.stdout.rstrip("\n")
    return text + TRUNCATED if outcome.stdout_cut_bytes else text


def _value_text(value: Value) -> str:
    text = value if isinstance(value, str) else json.dumps(describe_media(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE_CHARACTERS else text[:_LONGEST_VALUE_CHARACTERS] + TRUNCATED


def _images(pictures: Iterable[tuple[str, bytes]]) -> tuple[Image, ...]:
    return tuple(Image(mime=mime, base64=base64.b64encode(data).decode()) for mime, data in pictures)


# ----------------------------------------------------------------------------------------------------
# All that a model reads of the one tool that runs programs, in any framework. Pure text.

ENTRY_NAME: Final = "execute_program"
WithBoth: TypeAlias = bool | Literal["small"]
"""Whether tools that may be called either way are offered directly, too: all, none, or those of `small_tools`."""

_DESCRIPTION: Final = """\
Run a Python program that calls tools. Use it when a task takes several tool calls, a loop, or filtering and combining \
what tools return: only what the program prints, and the value of its last line, come back to you. Run independent \
calls at once with `await asyncio.gather(...)`. Tools return Python values; a failing tool raises `ToolError`. There \
is no network and no host file system."""
_FRESH: Final = "Each program starts fresh: no names or files are kept."
_PERSISTENT: Final = "Names and files are kept from one program to the next."
_ONLY_HERE: Final = "The tools below can be called only in a program."
_DIRECT: Final = "For a single call of a tool that you also have directly, call it directly."
_CODE: Final = "The Python program. Print what you need to know; keep large results inside the program."

SCHEMA: Final = text_schema("code", _CODE)


def rules(*, keeps_names: bool, has_both: bool) -> str:
    return " ".join([_DESCRIPTION, _PERSISTENT if keeps_names else _FRESH, _DIRECT if has_both else _ONLY_HERE])


SIGNATURE_BUDGET_CHARACTERS: Final = 6_000
_LONGEST_NAME: Final = 64
"""Of a tool, for every provider."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A way into one runtime, for any framework; `outside` are tools that only the caller can answer."""

    runtime: Runtime
    name: str = ENTRY_NAME
    session: str = ""
    limits: Limits | None = None
    with_both: WithBoth = False
    outside: Sequence[ToolSpec] = ()
    files: DescribedFiles = field(default_factory=DescribedFiles)
    names: RunNames = field(default_factory=RunNames)
    """On record with each program and each direct call."""
    _snapshots: list[ToolLessons] = field(default_factory=list, repr=False, compare=False)
    """What was learned when the first description was written: they stay the same, so that prompt caches hold."""

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise UsageError(f"tool name {self.name!r} must be 1 to 64 letters, digits, '_' or '-'; give another")
        if self.name in {*(spec.name for spec in self.outside), *map(_wire_name, self.runtime.catalog.direct)}:
            raise UsageError(f"a tool is named {self.name!r} like the one that runs programs; give name=")

    @property
    def schema(self) -> dict[str, Json]:
        return with_language(SCHEMA) if bash_rule(self.runtime) else dict(SCHEMA)

    def description(self, *, has_language: bool = True) -> str:
        specs = [spec for spec in (*self.runtime.tools, *self.outside) if spec.source != "toolfold"]
        direct = self.direct_tools().values()
        has_both = any(spec.allowed_callers == "both" for spec in (*direct, *self.outside))
        rules_text = rules(keeps_names=bool(self.session), has_both=has_both)
        if self.with_both == "small" and has_both:
            specs = without_offered(specs, {spec.name for spec in direct})
            rules_text = f"{rules_text} {OFFERED_RULE}"
        text = tools_text(specs, budget_characters=SIGNATURE_BUDGET_CHARACTERS, snapshot=self._snapshot())
        if has_language and (rule := bash_rule(self.runtime)):
            rules_text = f"{rules_text} {rule}"
        return "\n\n".join(part for part in (rules_text, text, self.files.text()) if part)

    def direct_tools(self) -> dict[str, ToolSpec]:
        """Tools that the model may also call itself, by a name that every provider takes."""
        specs = [spec for spec in self.runtime.catalog.direct if spec.source != "toolfold"]
        both = specs if self.with_both else []
        if self.with_both == "small":
            both = [*small_tools(self.runtime.tools, self._snapshot(), self.runtime.catalog.policy)]
        names = {spec.name for spec in both}
        return {_wire_name(spec): spec for spec in specs if spec.allowed_callers == "direct" or spec.name in names}

    def _snapshot(self) -> ToolLessons:
        if not self._snapshots:
            self._snapshots.append(self.runtime.catalog.learning.snapshot())
        return self._snapshots[0]

    def options(self, language: Language = "python") -> ProgramOptions:
        files, keep_names = self.files.files_for(self.session, self.runtime.sessions), language == "python"
        return ProgramOptions(
            files=files, limits=self.limits, session=self.session, keep_names=keep_names and bool(self.session),
            language=language, **{name: getattr(self.names, name) for name in RunNames.__struct_fields__},
        )  # fmt: skip

    async def answer(self, name: str, arguments: Mapping[str, Any] | str) -> ModelAnswer:
        """A model's call of this tool or of a direct one; its mistakes are answered, not raised."""
        read = _read(name, arguments)
        if isinstance(read, ModelAnswer):
            return read
        if name != self.name:
            spec = self.direct_tools().get(name)
            called = spec.name if spec is not None else name
            return render_reply(await self.runtime.call(called, read, names=self.names))
        program = self.program(read)
        return program if isinstance(program, ModelAnswer) else await self.answer_program(*program)

    async def answer_program(self, text: str, options: ProgramOptions | None = None) -> ModelAnswer:
        try:
            return render_outcome(await self.runtime.run(text, options=options or self.options()))
        except EngineCrashed as error:
            return render_crash(error)

    def program(self, arguments: Mapping[str, Any]) -> tuple[str, ProgramOptions] | ModelAnswer:
        """The program in a call's arguments and its options, or what is wrong with them."""
        text = arguments.get("code")
        if not isinstance(text, str):
            message = f"'code' must be the program as text, got {text!r}; nothing was called"
            return ModelAnswer(text=message, has_failed=True)
        try:
            language = language_of(arguments.get("language"), self.runtime)
        except UsageError as error:
            return ModelAnswer(text=str(error), has_failed=True)
        return text, self.options(language)


def _read(name: str, arguments: Mapping[str, Any] | str) -> Mapping[str, Any] | ModelAnswer:
    if not isinstance(arguments, str):
        return arguments
    try:
        read = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        return ModelAnswer(text=f"the arguments of {name!r} are not JSON: {error}; nothing was called", has_failed=True)
    if isinstance(read, dict):
        return read
    return ModelAnswer(text=f"the arguments of {name!r} must be a JSON object; nothing was called", has_failed=True)


def _wire_name(spec: ToolSpec) -> str:
    if _NAME.fullmatch(spec.name):
        return spec.name
    if len(spec.python_name) <= _LONGEST_NAME:
        return spec.python_name
    return f"{spec.python_name[: _LONGEST_NAME - 7]}_{hashlib.sha256(spec.name.encode()).hexdigest()[:6]}"
