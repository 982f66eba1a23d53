"""The one tool that runs programs, as any framework sees it: its words, its schema, its answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

from toolfold.doors.frameworks.render import Shown, shown_crash, shown_outcome, shown_reply
from toolfold.doors.frameworks.texts import ENTRY_NAME, SCHEMA, rules
from toolfold.doors.prompts import tools_text
from toolfold.errors import EngineCrashed, UsageError
from toolfold.execution.described_files import DescribedFiles
from toolfold.models import File, Json, Limits, Outcome, ToolSpec
from toolfold.runtime import Runtime
from toolfold.tools.learning import Snapshot

SIGNATURE_BUDGET_CHARACTERS: Final = 6_000
_LONGEST_NAME: Final = 64
"""Of a tool, for every provider."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class RunOptions(TypedDict):
    """What each program of an entry is run with."""

    files: Sequence[File]
    limits: Limits | None
    session: str
    keep_names: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A way into one runtime.

    Args:
        runtime: Runs the programs; entered by whoever made it.
        name: What the model calls the tool.
        session: Keeps names and files between all programs of this entry; empty keeps nothing.
        limits: Of each program; the runtime's own unless given.
        with_both: Tools that may be called either way are offered directly, too.
        outside: Tools that only the caller can answer.
        files: In the data folder of every program, or in that of the session; the model is told of them.
    """

    runtime: Runtime
    name: str = ENTRY_NAME
    session: str = ""
    limits: Limits | None = None
    with_both: bool = False
    outside: Sequence[ToolSpec] = ()
    files: DescribedFiles = field(default_factory=DescribedFiles)
    _known: list[Snapshot] = field(default_factory=list, repr=False, compare=False)
    """What was learned when the first description was written: they stay the same, so that prompt caches hold."""

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise UsageError(f"tool name {self.name!r} must be 1 to 64 letters, digits, '_' or '-'; give another")
        if any(self.name == spec.name for spec in self.outside) or self.name in self.direct_tools():
            raise UsageError(f"a tool is named {self.name!r} like the one that runs programs; give name=")

    def description(self) -> str:
        """For the model, with the signatures of what programs may call."""
        specs = [spec for spec in (*self.runtime.tools, *self.outside) if spec.source != "toolfold"]
        has_both = any(spec.allowed_callers == "both" for spec in (*self.direct_tools().values(), *self.outside))
        if not self._known:
            self._known.append(self.runtime.learned_now())
        text = tools_text(specs, budget_characters=SIGNATURE_BUDGET_CHARACTERS, known=self._known[0])
        how = rules(keeps_names=bool(self.session), has_both=has_both)
        return "\n\n".join(part for part in (how, text, self.files.text()) if part)

    def schema(self) -> dict[str, Json]:
        """Of the arguments; fits the strict modes of all providers."""
        return dict(SCHEMA)

    def direct_tools(self) -> dict[str, ToolSpec]:
        """What the model may also call itself, by a name that every provider takes."""
        kinds = ("direct", "both") if self.with_both else ("direct",)
        specs = [spec for spec in self.runtime.direct_tools if spec.source != "toolfold"]
        return {_wire_name(spec): spec for spec in specs if spec.allowed_callers in kinds}

    async def run(self, text: str) -> Outcome:
        """One program, to its end."""
        return await self.runtime.run(text, **self.options())

    def options(self) -> RunOptions:
        """Of each program."""
        files = self.files.given_to(self.session, self.runtime.sessions)
        return {"files": files, "limits": self.limits, "session": self.session, "keep_names": bool(self.session)}

    async def answer(self, name: str, arguments: Mapping[str, Any] | str) -> Shown:
        """A model's call of this tool or of a direct one; its mistakes are answered, not raised."""
        read = _read(name, arguments)
        if isinstance(read, Shown):
            return read
        if name != self.name:
            spec = self.direct_tools().get(name)
            return shown_reply(await self.runtime.call(spec.name if spec is not None else name, read))
        text = program_text(read)
        return text if isinstance(text, Shown) else await self.answer_program(text)

    async def answer_program(self, text: str) -> Shown:
        """What a model reads of a program's end."""
        try:
            return shown_outcome(await self.run(text))
        except EngineCrashed as error:
            return shown_crash(error)


def program_text(arguments: Mapping[str, Any]) -> str | Shown:
    """The program in a call's arguments, or what is wrong with them."""
    text = arguments.get("code")
    if isinstance(text, str):
        return text
    return Shown(text=f"'code' must be the program as text, got {text!r}; nothing was called", has_failed=True)


def _read(name: str, arguments: Mapping[str, Any] | str) -> Mapping[str, Any] | Shown:
    if not isinstance(arguments, str):
        return arguments
    try:
        read = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        return Shown(text=f"the arguments of {name!r} are not JSON: {error}; nothing was called", has_failed=True)
    if isinstance(read, dict):
        return read
    return Shown(text=f"the arguments of {name!r} must be a JSON object; nothing was called", has_failed=True)


def _wire_name(spec: ToolSpec) -> str:
    if _NAME.fullmatch(spec.name):
        return spec.name
    if len(spec.python_name) <= _LONGEST_NAME:
        return spec.python_name
    return f"{spec.python_name[: _LONGEST_NAME - 7]}_{hashlib.sha256(spec.name.encode()).hexdigest()[:6]}"
