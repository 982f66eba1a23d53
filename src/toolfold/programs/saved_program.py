"""Saved program as two files: `NAME.py`, a text under a small header, and `NAME.record.json`, the run that proves it.

The header has one JSON value per line. Its `proof` is a hash of all that decides what the program does and of its
record: after a change by hand it no longer fits. It shows changes and does not prevent them.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from toolfold.errors import UsageError
from toolfold.models import Json, LibrarySet, ToolSpec, Value
from toolfold.sources.saved_programs import program_tool
from toolfold.tools.tool import ProgramNeeds, Tool
from toolfold_guest.shared.reserved_names import RESERVED

_FIRST_LINE: Final = "# A saved program of toolfold; 'toolfold programs --help' says what to do with it."
_LINE: Final = re.compile(r"^# (\w+): (.*)$", re.MULTILINE)
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,63}")
_MOST_BYTES: Final = 1024 * 1024


class ToolFingerprint(msgspec.Struct, frozen=True):
    """A tool of the record: what a change of the tool is found by."""

    schema: str
    """Hash of its schemas."""
    read_only: bool = False


class SavedProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program that worked, with its signature."""

    name: str
    text: str
    version: int = 1
    description: str = ""
    parameters: Mapping[str, Json]
    """Properties of its input schema, by name; all are required that have no default."""
    returns: Mapping[str, Json] | None = None
    tools: Mapping[str, ToolFingerprint]
    """Those that it called in its record."""
    presets: tuple[str, ...] = ()
    libraries: LibrarySet = "bare"
    record: str = ""
    """Hash of its record."""
    proof: str = ""

    @property
    def input_schema(self) -> dict[str, Json]:
        required = [name for name, schema in self.parameters.items() if "default" not in schema]
        return {
            "type": "object",
            "properties": dict(self.parameters),
            "required": required,
            "additionalProperties": False,
        }

    @property
    def is_edited(self) -> bool:
        """Whether the file was changed by hand since it was proved."""
        return self.proof != self.computed_proof()

    def computed_proof(self) -> str:
        facts = [
            self.name,
            self.text,
            self.parameters,
            self.returns,
            self.tools,
            self.presets,
            self.libraries,
            self.record,
        ]
        return hash_of(msgspec.json.encode(facts, order="deterministic"))

    def proved(self) -> SavedProgram:
        return msgspec.structs.replace(self, proof=self.computed_proof())

    def as_tool(self) -> Tool:
        needs = ProgramNeeds(presets=self.presets, libraries=self.libraries, tools=frozenset(self.tools))
        return program_tool(
            self.name, self.text, self.input_schema, description=self.description, output_schema=self.returns,
            version=self.version, needs=needs, read_only=all(tool.read_only for tool in self.tools.values()),
        )  # fmt: skip

    def to_file(self) -> str:
        lines = [_FIRST_LINE]
        for field in _HEADER:
            value = msgspec.to_builtins(getattr(self, field))
            lines.append(f"# {field}: {json.dumps(value, ensure_ascii=False)}")
        return "\n".join(lines) + "\n\n" + self.text

    @staticmethod
    def of_file(name: str, content: str) -> SavedProgram:
        """The program of a file.

        Raises:
            UsageError: It has no header, or not this one.
        """
        head, _, text = content.replace("\r\n", "\n").partition("\n\n")
        fields = [f'"{match[1]}":{match[2]}' for match in _LINE.finditer(head) if match[1] in _HEADER]
        try:
            header = msgspec.json.decode(f"{{{','.join(fields)}}}", type=_Header)
        except msgspec.DecodeError as error:
            raise UsageError(f"saved program {name!r} has a header that cannot be read: {error}") from error
        values = {field: getattr(header, field) for field in _HEADER}
        return SavedProgram(name=name, text=text, **values)


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    description: str = ""
    version: int = 1
    parameters: Mapping[str, Json]
    returns: Mapping[str, Json] | None = None
    tools: Mapping[str, ToolFingerprint]
    presets: tuple[str, ...] = ()
    libraries: LibrarySet = "bare"
    record: str = ""
    proof: str = ""


_HEADER: Final = _Header.__struct_fields__


class RecordedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call of the run, with its reply."""

    id: int
    tool: str
    arguments: Mapping[str, Value]
    value: Value = None
    error: str | None = None


class ProgramRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The run that proves a program."""

    execution_id: str
    text: str
    """Of the saved program, before anybody edits its file."""
    began_at: float
    seed: int
    arguments: Mapping[str, Value]
    """Of the program: what stood in its text."""
    calls: tuple[RecordedCall, ...]
    value: Value
    tools: tuple[ToolSpec, ...]

    def to_file(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    @staticmethod
    def of_file(name: str, content: bytes) -> ProgramRecord:
        try:
            return msgspec.json.decode(content, type=ProgramRecord)
        except msgspec.DecodeError as error:
            raise UsageError(f"the record of saved program {name!r} cannot be read: {error}") from error


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def fingerprint(spec: ToolSpec) -> ToolFingerprint:
    facts = [spec.input_schema, spec.output_schema]
    return ToolFingerprint(hash_of(msgspec.json.encode(facts, order="deterministic")), spec.read_only)


# Any: a model may have sent it.
def check_name(name: Any) -> str:
    """The name, if a program can have it.

    Raises:
        UsageError: It is no identifier in small letters, or means something else in programs.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"a saved program needs a name such as monthly_report, in small letters; got {str(name)[:80]!r}"
        )
    if name in RESERVED:
        raise UsageError(f"programs have another {name!r} already; choose another name")
    return name
