"""Sync of package sets: from the config to installed sets and a lock file. A failure changes neither."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolfold.engines.process.jail_layout import library_modules, library_versions
from toolfold.errors import UsageError
from toolfold.libraries.installed_sets import (
    LibraryStore,
    LockedSet,
    Wheel,
    named_by,
    other_machines,
    read_lock,
    target,
    write_lock,
)
from toolfold.models import InstalledSet

MAIN: Final = "main"
"""Name of the set of `libraries.packages`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSet:
    """Package set in the config."""

    name: str
    packages: tuple[str, ...]
    preload: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """Package set after a sync."""

    name: str
    locked: LockedSet
    installed: InstalledSet
    notes: tuple[str, ...] = ()


def sync(
    requested_sets: Sequence[WantedSet], lock: Path, *, upgrade: bool = False,
    try_out: Callable[[InstalledSet], None] = lambda _: None,
) -> list[SyncResult]:  # fmt: skip
    """Resolve, download, unpack and lock every set; the lock is written when all of them are there.

    Programs choose among sets in this order. A `UsageError`, in one line with the name of the set, or whatever
    `try_out` raises for a set, leaves lock and folders as they were.
    """
    store = LibraryStore()
    before = read_lock(lock)
    done = []
    for library_set in requested_sets:
        try:
            done.append(_sync(library_set, before.get(library_set.name), lock, store, upgrade=upgrade))
            try_out(done[-1].installed)
        except UsageError as error:
            stays = "; the installed set stays in use" if library_set.name in before else ""
            raise UsageError(f"libraries, set {library_set.name!r}: {error}{stays}") from error
    if requested_sets or before:
        write_lock(lock, {library_set.name: library_set.locked for library_set in done})
    return done


def _sync(
    library_set: WantedSet, before: LockedSet | None, lock: Path, store: LibraryStore, *, upgrade: bool
) -> SyncResult:
    with store.staging() as folder:
        wheels = folder / "wheels"
        if before is not None and before.packages == library_set.packages and not upgrade:
            locked = before
            if not store.has(locked):
                download_locked(locked, wheels)
                _compare(locked, wheels)
        else:
            pins = [] if upgrade else _locked_pins(before, other_machines(lock, library_set.name))
            _resolve(library_set, wheels, pins)
            locked = LockedSet(packages=library_set.packages, wheels=wheels_in(wheels))
        store.add(locked, wheels)
    installed_set = store.set_of(library_set.name, locked, library_set.preload)
    _refuse_strange_preload(library_set, store, locked)
    return SyncResult(name=library_set.name, locked=locked, installed=installed_set, notes=tuple(_notes(locked)))


def _resolve(library_set: WantedSet, wheels: Path, locked: list[str]) -> None:
    """Resolve, first with the locked versions and those of the libraries that programs have anyway."""
    host_pins = [f"{name}=={version}" for name, version in library_versions().items()]
    locked_names = {pin.partition("==")[0] for pin in locked}
    other_pins = [pin for pin in host_pins if pin.partition("==")[0] not in locked_names]
    for pins in ([[*locked, *other_pins]] if locked else []) + [host_pins, []]:
        try:
            return download(library_set.packages, wheels, pins=pins)
        except UsageError as error:
            if not pins or str(error) == UNREACHABLE:
                raise
    raise AssertionError


def _locked_pins(before: LockedSet | None, elsewhere: Mapping[str, LockedSet]) -> list[str]:
    locked_set = before or next(iter(elsewhere.values()), None)
    return [] if locked_set is None else [f"{wheel.name}=={wheel.version}" for wheel in locked_set.wheels]


def _compare(locked: LockedSet, wheels: Path) -> None:
    """Check the hashes again after pip, file by file."""
    hashes = {wheel.file: wheel.sha256 for wheel in wheels_in(wheels)}
    for wheel in locked.wheels:
        if hashes.get(wheel.file) != wheel.sha256:
            raise UsageError(f"the hash of {wheel.name!r} is not the one in the lock")


def _refuse_strange_preload(library_set: WantedSet, store: LibraryStore, locked: LockedSet) -> None:
    module_names = {module for modules in store.modules(locked).values() for module in modules}
    for name in library_set.preload:
        first = name.partition(".")[0]
        if first not in module_names and first not in library_modules():
            raise UsageError(f"preload names {name!r}, which no package of the set has")


def _notes(locked: LockedSet) -> Iterator[str]:
    """Packages of which a program would get parts of two versions."""
    versions = library_versions()
    for wheel in locked.wheels:
        if wheel.name in versions and versions[wheel.name] != wheel.version:
            yield (
                f"{wheel.name} {wheel.version} differs from {versions[wheel.name]} beside toolfold; list what is used "
                "together with it in libraries.packages too"
            )


# ----------------------------------------------------------------------------------------------------
# Wheels from the package index, by pip: resolved, downloaded, and never built or installed.
#
# Wheels only: a source distribution would run its own code to be built. Where they come from, pip's settings say.

UNREACHABLE: Final = "the package index cannot be reached; look at pip's settings with 'pip config list'"
_PIP: Final = (sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color")
_NO_ANSWER: Final = re.compile(
    r"Retrying \(|connection (?:broken|refused|timed out)|Could not fetch URL|Failed to establish|Name or service not"
    r"|Temporary failure in name|Max retries|packages due to an OSError|NewConnectionError|ReadTimeout|ProxyError"
    r"|SSLError|Location '.*' is ignored",
    re.IGNORECASE,
)
_NOT_FOUND: Final = re.compile(r"No matching distribution found for (\S+)")
_CONFLICT: Final = re.compile(r"The conflict is caused by:\n((?: +\S.*\n)+)")
_HASHES: Final = re.compile(r"DO NOT MATCH THE HASHES.*?\n +(\S+?)==", re.DOTALL)


def download(packages: Sequence[str], folder: Path, *, pins: Sequence[str] = ()) -> None:
    """Resolve packages and their dependencies into a folder of wheels, or `UsageError`; `pins` are versions to keep."""
    requirements = _write_lines(folder.parent / "requirements.txt", packages)
    constraints = _write_lines(folder.parent / "constraints.txt", pins)
    _run(folder, "--requirement", requirements, "--constraint", constraints)


def download_locked(locked: LockedSet, folder: Path) -> None:
    """Download exactly the wheels of a lock; `UsageError` if one is not available, or is another file."""
    lines = [f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}" for wheel in locked.wheels]
    _run(folder, "--no-deps", "--require-hashes", "--requirement", _write_lines(folder.parent / "locked.txt", lines))


def _run(folder: Path, *arguments: str) -> None:
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    # `:all:` last, so that no setting of pip's can take it back.
    command = [*_PIP, "download", "--retries", "1", "--dest", str(folder), *arguments, "--only-binary", ":all:"]
    done = _pip(command, folder.parent)
    if done.returncode:
        raise UsageError(_reason(done.stdout + done.stderr, folder.parent))


def _pip(command: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    ignored = ("PIP_REQUIRE_VIRTUALENV", "PIP_TARGET")
    environment = {key: value for key, value in os.environ.items() if key not in ignored}
    try:
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(f"pip cannot be started: {error.strerror}") from error
    if "No module named pip" in done.stderr:
        raise UsageError("there is no pip beside toolfold; install it with 'python -m ensurepip'")
    return done


def _write_lines(path: Path, lines: Sequence[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def _reason(pip_output: str, folder: Path) -> str:
    """Reason for a failure without addresses: those may hold the password of a registry."""
    if match := _HASHES.search(pip_output):
        return f"the hash of {match[1]!r} is not the one in the lock: the index has another file under the same version"
    if match := _CONFLICT.search(pip_output):
        return f"the packages contradict each other: {'; '.join(line.strip() for line in match[1].splitlines())}"
    if _NO_ANSWER.search(pip_output):
        return UNREACHABLE
    if missing := _NOT_FOUND.search(pip_output):
        return _why_missing(missing[1], pip_output, folder)
    errors = re.findall(r"^ERROR: (.*)$", pip_output, re.MULTILINE)
    return f"pip failed: {re.sub(r'[a-z]+://[^ ]+', 'an address', errors[-1] if errors else 'it gave no reason')}"


def _why_missing(requirement: str, pip_output: str, folder: Path) -> str:
    name = re.split(r"[^A-Za-z0-9._-]", requirement)[0]
    wheels = re.search(r"from versions: ([^)]*)\)", pip_output)
    if wheels and wheels[1] != "none":
        latest = wheels[1].split(", ")[-5:]
        return f"there is no wheel of {requirement!r} for this machine ({target()}); the newest are {', '.join(latest)}"
    # Without building anything: this only reads the list of files.
    lookup = _pip([*_PIP, "index", "versions", name, "--no-binary", ":all:", "--pre"], folder)
    if lookup.returncode == 0:
        return f"{name!r} has no wheel for this machine ({target()}); toolfold builds nothing from source"
    return f"no package {name!r} on the index; is it spelt right?"


def wheels_in(folder: Path) -> tuple[Wheel, ...]:
    # Imported here: the hashes of a lock are compared by pip already.
    import hashlib  # noqa: PLC0415

    wheels = []
    for path in sorted(folder.glob("*.whl")):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        wheels.append(Wheel(*named_by(path.name), path.name, digest))
    return tuple(sorted(wheels))
