"""Lock file beside the config: the wheels of each package set, by version and hash. It names no registry."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from toolfold.errors import UsageError
from toolfold.models import MIB

_VERSION: Final = 1
_FORMAT: Final = 2
"""Format of the folders that wheels are unpacked into; part of their names."""
_SEPARATORS: Final = re.compile(r"[-_.]+")
_MOST_BYTES: Final = 16 * MIB
_MOST_SHOWN_CHARACTERS: Final = 80
_FIELDS: Final = {
    "name": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?", re.ASCII),
    "version": re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_]{0,99}", re.ASCII),
    "file": re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,249}\.whl", re.ASCII),
    "sha256": re.compile(r"[0-9a-f]{64}", re.ASCII),
}
"""Fields of a wheel. They become lines of a file that pip reads, options included, and names of files."""


class Wheel(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """File of the package index."""

    name: str
    version: str
    file: str
    sha256: str


class LockedSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Resolved packages of one set on one kind of machine."""

    packages: tuple[str, ...]
    """Requirements as in the config."""
    wheels: tuple[Wheel, ...]

    @property
    def digest(self) -> str:
        """Name of the folder: the same wheels on the same Python are the same folder."""
        content = [_FORMAT, target(), *((wheel.file, wheel.sha256) for wheel in sorted(self.wheels))]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


class _Lock(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    sets: dict[str, dict[str, LockedSet]]


def target() -> str:
    """Kind of machine and Python that a wheel must fit."""
    soabi: str | None = sysconfig.get_config_var("SOABI")
    return soabi or f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"


def normal_name(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()


def lock_path(config: Path) -> Path:
    """`toolfold.libraries.lock` for `toolfold.yaml`."""
    return config.with_name(f"{config.stem}.libraries.lock")


def read_lock(path: Path) -> Mapping[str, LockedSet]:
    """Sets that are locked for this kind of machine, none without a file; `UsageError` if it is not a lock file."""
    return {name: by_target[target()] for name, by_target in _read(path).sets.items() if target() in by_target}


def other_machines(path: Path, name: str) -> Mapping[str, LockedSet]:
    """The same set as locked on other kinds of machines, whose versions are preferred here too."""
    return {kind: locked_set for kind, locked_set in _read(path).sets.get(name, {}).items() if kind != target()}


def write_lock(path: Path, sets: Mapping[str, LockedSet]) -> None:
    """Replace the sets of this kind of machine, at once or not at all; those of others stay."""
    before = _read(path)
    merged = {name: {**before.sets.get(name, {}), target(): locked} for name, locked in sets.items()}
    text = msgspec.json.format(msgspec.json.encode(_Lock(_VERSION, merged), order="sorted"), indent=2) + b"\n"
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(text)
        os.chmod(temporary, 0o644)  # beside the config, and meant to be committed with it
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _read(path: Path) -> _Lock:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return _Lock(_VERSION, {})
    except OSError as error:
        raise UsageError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(text) > _MOST_BYTES:
        raise _invalid(path, f"it has more than {_MOST_BYTES} bytes")
    try:
        lock = msgspec.json.decode(text, type=_Lock)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _invalid(path, _quote(str(error))) from None
    if lock.version != _VERSION:
        raise UsageError(f"{path.name} has version {lock.version}; this toolfold reads {_VERSION}")
    for name, by_target in lock.sets.items():
        for locked in by_target.values():
            if reason := _problem(locked):
                raise _invalid(path, f"set {_quote(name)}: {reason}")
    return lock


def _problem(locked: LockedSet) -> str:
    """Problem of the first field that no sync writes; empty if there is none."""
    for wheel in locked.wheels:
        for field, pattern in _FIELDS.items():
            value = getattr(wheel, field)
            if not pattern.fullmatch(value):
                return f"invalid {field} {_quote(value)}"
        if (wheel.name, wheel.version) != named_by(wheel.file):
            return f"file {_quote(wheel.file)} is not of {wheel.name!r} {wheel.version!r}"
    return ""


def named_by(file: str) -> tuple[str, str]:
    name, version, *_ = (*file.split("-"), "")
    return normal_name(name), version


def _invalid(path: Path, reason: str) -> UsageError:
    return UsageError(f"{path.name} is not a lock file ({reason}); remove it and run 'toolfold libraries sync'")


def _quote(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN_CHARACTERS else text[:_MOST_SHOWN_CHARACTERS] + "…")
