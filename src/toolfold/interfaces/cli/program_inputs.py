"""Inputs of the command line: the program, its files, its limits and the options of `toolfold run`."""

import math
import mimetypes
import os
import secrets
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from toolfold.errors import UsageError
from toolfold.models import MIB, File, Language, Limits, ProgramOptions

_LONGEST_TIMEOUT_SECONDS: Final = 86_400
_BINARY: Final = "application/octet-stream"
_PRINTED_BYTES: Final = 8 * MIB


def read_program(name: str, limits: Limits) -> str:
    """The program's text from a file, or from stdin for `-`."""
    # One byte over the limit is enough for the check to say that it is too large.
    size = limits.program_bytes + 1
    data = sys.stdin.buffer.read(size) if name == "-" else _read(Path(name), size, "program")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"byte {data[error.start]:#04x} at offset {error.start}"
        raise UsageError(f"program {name!r} is not UTF-8: {place}; save it as UTF-8") from error


def read_files(paths: Sequence[Path], limits: Limits) -> tuple[File, ...]:
    """The files that go into the data folder, under their last name."""
    files: dict[str, File] = {}
    room = limits.data_bytes
    for path in paths:
        if path.name in files:
            raise UsageError(f"two files are named {path.name!r}; rename one, because they share the data folder")
        data = _read(path, room + 1, "file")
        room -= len(data)
        if room < 0:
            raise UsageError(
                f"file {str(path)!r} does not fit: the data folder holds {limits.data_bytes} bytes in total"
            )
        files[path.name] = File(name=path.name, data=data, mime=mimetypes.guess_type(path.name)[0] or _BINARY)
    return tuple(files.values())


def limits_for(timeout_seconds: float | None, *, as_json: bool, default_limits: Limits | None = None) -> Limits:
    """The usual limits, with the wall clock as asked for.

    Without JSON the output is a stream for a pipe or a person, not for a model's context,
    so it may be as long as the ledger keeps it.
    """
    limits = default_limits or Limits()
    limits = limits if as_json else replace(limits, output_bytes=_PRINTED_BYTES)
    if timeout_seconds is None:
        return limits
    if not 0 < timeout_seconds <= _LONGEST_TIMEOUT_SECONDS:
        raise UsageError(f"timeout {timeout_seconds!r} is not between 0 and {_LONGEST_TIMEOUT_SECONDS} seconds")
    cpu_seconds = max(limits.cpu_seconds, math.ceil(timeout_seconds))
    return replace(limits, wall_seconds=timeout_seconds, cpu_seconds=cpu_seconds)


def moment_of(text: str) -> float:
    """Seconds since 1970 of a date as in `2026-01-31`, or of an age as in `2h`."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass
    from toolfold.config.sections import seconds_of

    age = seconds_of(text)
    if age is None:
        raise UsageError(f"{text!r} is not an age or a date; write it as 30m, 2h, 7d or 2026-01-31")
    return time.time() - age


def with_limits(assignments: Sequence[str], default_limits: Limits | None) -> Limits | None:
    """The usual limits with those of the command line, each `NAME=VALUE` as `limits` in a config has them."""
    if not assignments:
        return default_limits
    from pydantic import ValidationError

    from toolfold.config.model import LimitsConfig

    values: dict[str, str] = {}
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        if not sign or name not in LimitsConfig.model_fields:
            names = ", ".join(LimitsConfig.model_fields)
            raise UsageError(f"unknown limit {assignment!r}; write NAME=VALUE with one of {names}")
        values[name] = value
    try:
        read = LimitsConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise UsageError(f"limit {name}={values[name]!r} {first['msg']}") from None
    return replace(default_limits or Limits(), **read.model_dump(exclude_none=True))


def _read(path: Path, size: int, kind: str) -> bytes:
    try:
        with open(path, "rb") as file:
            if stat.S_ISDIR(os.fstat(file.fileno()).st_mode):
                raise IsADirectoryError
            return file.read(size)
    except FileNotFoundError as error:
        raise UsageError(f"no {kind} {str(path)!r}; check the path") from error
    except IsADirectoryError as error:
        raise UsageError(f"{kind} {str(path)!r} is a folder; name a file in it") from error
    except PermissionError as error:
        raise UsageError(f"{kind} {str(path)!r} cannot be read: permission denied") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{kind} {str(path)!r} cannot be read: {reason}") from error


# ----------------------------------------------------------------------------------------------------
# What `toolfold run` and its kin were told to do.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of the command line, as they were written."""

    program: str = ""
    """A file, or `-`; empty if `code` is the program."""
    code: str | None = None
    lang: Language | None = None
    """`None`: bash for a file that ends in `.sh`, else Python."""
    tools: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    api_urls: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    memory: str | None = None
    limits: tuple[str, ...] = ()
    """`NAME=VALUE` each."""
    engine: str | None = None
    """`None`: the config's, or the usual one; the same for the isolation."""
    isolation: str | None = None
    address: str | None = None
    files: tuple[Path, ...] = ()
    out: Path | None = None
    as_json: bool = False
    is_verbose: bool = False
    accept_no_isolation: bool = False
    ledger: str | None = None
    config: Path | None = None
    yes: bool = False
    """Every call that needs approval has it."""
    detach: bool = False

    @property
    def language(self) -> Language:
        return self.lang or ("bash" if self.program.endswith(".sh") else "python")

    def program_options(self, limits: Limits) -> ProgramOptions:
        """What the program is run with, under a new id."""
        return ProgramOptions(
            files=read_files(self.files, limits),
            limits=limits,
            execution_id=secrets.token_hex(8),
            language=self.language,
        )

    # Any: each option has its own type.
    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Options as they were read: lists become tuples, and what was not written keeps its default."""
        options: dict[str, Any] = {key: value for key, value in values.items() if value is not None}
        options |= {key: tuple(value) for key, value in options.items() if isinstance(value, list)}
        return cls(**options)
