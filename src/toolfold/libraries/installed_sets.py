"""Installed package sets: folders named by their content, how wheels are unpacked into them, and the lock file."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from toolfold.engines.process.jail_layout import library_versions
from toolfold.errors import UsageError
from toolfold.file_locks import O_CLOEXEC, O_NOFOLLOW, try_lock
from toolfold.ledger.sqlite.write_ahead_log import HAS_LOCKS
from toolfold.models import MIB, InstalledSet

_MARK: Final = ".toolfold.json"
_STAGING: Final = ".new-"
_ATTEMPTS: Final = 10
_SPARE: Final = ("tests", "test", "docs", "examples", "benchmarks")


class _Mark(msgspec.Struct):
    """Mark of a complete folder, written last."""

    modules: dict[str, tuple[str, ...]]
    """By the file name of the wheel."""
    code_bytes: int
    content: str
    """Hash of all that was unpacked and compiled."""


class LibraryStore:
    """Folders of all sets on this machine, by default in the user's data folder."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            # Imported here: most of what reads a config has no packages.
            import platformdirs  # noqa: PLC0415

            folder = platformdirs.user_data_path("toolfold", appauthor=False) / "libraries"
        self._folder = folder

    def folder_of(self, locked: LockedSet) -> Path:
        return self._folder / locked.digest

    def has(self, locked: LockedSet) -> bool:
        return (self.folder_of(locked) / _MARK).is_file()

    def add(self, locked: LockedSet, wheels: Path) -> Path:
        """Unpack all wheels of a folder, or none, unless they are installed already; `UsageError` if one is broken."""
        final = self.folder_of(locked)
        if self.has(locked):
            return final
        with self.staging() as temporary:
            modules = unpack([wheels / wheel.file for wheel in locked.wheels], temporary)
            compile_all(temporary)
            mark = _Mark(dict(modules), _size(temporary, "*.so*"), _content(temporary))
            (temporary / _MARK).write_bytes(msgspec.json.encode(mark))
            lock_away(temporary)
            if not self.has(locked):  # another sync may have been first
                shutil.rmtree(final, ignore_errors=True)  # of an attempt that was cut short
                os.rename(temporary, final)
        return final

    @contextlib.contextmanager
    def staging(self) -> Iterator[Path]:
        """Temporary folder beside the sets, removed in the end; so are those that killed processes left.

        Its owner holds a lock on it. Whoever removes a stale one holds its lock, so that an owner which had made the
        folder but not locked it yet cannot get the lock, or finds the folder gone, and makes another.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._remove_stale()
        folder, handle = self._claim()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if handle is not None:
                os.close(handle)

    def _claim(self) -> tuple[Path, int | None]:
        for _ in range(_ATTEMPTS if HAS_LOCKS else 0):
            folder = Path(tempfile.mkdtemp(dir=self._folder, prefix=_STAGING))
            handle = _locked(folder)
            if handle is not None:
                return folder, handle
            with contextlib.suppress(OSError):  # removed by the other one
                folder.rmdir()
        # Where there are no locks, nobody can take it for a stale one either.
        return Path(tempfile.mkdtemp(dir=self._folder, prefix=_STAGING)), None

    def _remove_stale(self) -> None:
        for folder in self._folder.glob(f"{_STAGING}*") if HAS_LOCKS else ():
            handle = _locked(folder)
            if handle is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(handle)

    def modules(self, locked: LockedSet) -> Mapping[Wheel, tuple[str, ...]]:
        mark = self._mark(locked)
        return {wheel: mark.modules.get(wheel.file, ()) for wheel in locked.wheels}

    def is_sound(self, locked: LockedSet) -> bool:
        """Whether each file is as it was unpacked; reads them all."""
        return self._mark(locked).content == _content(self.folder_of(locked))

    def bytes_of(self, locked: LockedSet) -> int:
        return _size(self.folder_of(locked), "*")

    def _mark(self, locked: LockedSet) -> _Mark:
        return msgspec.json.decode((self.folder_of(locked) / _MARK).read_bytes(), type=_Mark)

    def set_of(self, name: str, locked: LockedSet, preload: Sequence[str] = ()) -> InstalledSet:
        host_versions = library_versions()
        requested_names = {requirement_name(text) for text in locked.packages}
        by_wheel = self.modules(locked)
        # Packages beside toolfold of the same version are as good, and maybe loaded already.
        own = [modules for wheel, modules in by_wheel.items() if host_versions.get(wheel.name) != wheel.version]
        offers = [main_modules(modules) for wheel, modules in by_wheel.items() if wheel.name in requested_names]
        return InstalledSet(
            name=f"{name}-{locked.digest[:12]}", folder=str(self.folder_of(locked)),
            modules=frozenset(module for modules in own for module in modules),
            offers=tuple(dict.fromkeys(module for modules in offers for module in modules)), preload=tuple(preload),
            code_bytes=self._mark(locked).code_bytes,
        )  # fmt: skip


def _locked(folder: Path) -> int | None:
    """A handle that holds the folder's lock; `None` if another process has it, or has removed the folder."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(FileNotFoundError):
        if try_lock(handle) and os.path.samestat(os.fstat(handle), os.stat(folder)):
            return handle
    os.close(handle)
    return None


def _size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file())


def _content(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _MARK):
        with path.open("rb") as file:
            whole.update(f"{path.relative_to(folder)}\n{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def requirement_name(text: str) -> str:
    """`networkx` of `NetworkX[all]==3.4.2`."""
    return normal_name("".join(itertools.takewhile(lambda sign: sign.isalnum() or sign in "._-", text)))


def main_modules(modules: Sequence[str]) -> list[str]:
    return [name for name in modules if not name.startswith("_") and name not in _SPARE] or list(modules)


# ----------------------------------------------------------------------------------------------------
# Unpacking of wheels: files only, nothing run. What Python would run by itself at a start is left out.

GUEST_FOLDER: Final = "/py/libraries"
MOST_BYTES: Final = 8 * 1024**3
MOST_FILES: Final = 250_000
_SCHEMES: Final = ("purelib", "platlib")
_OF_A_DISTRIBUTION: Final = (".dist-info", ".libs", ".data")
_BINARY: Final = (".so", ".pyd")


def unpack(wheels: Sequence[Path], folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Unpack wheels into an empty folder; the modules of each, by file name. `UsageError` for a broken or huge one."""
    remaining = [MOST_BYTES, MOST_FILES]
    return {wheel.name: tuple(sorted(_unpack(wheel, folder, remaining))) for wheel in wheels}


def _unpack(wheel: Path, folder: Path, remaining: list[int]) -> set[str]:
    modules: set[str] = set()
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member, place in _places(archive):
                remaining[0] -= member.file_size
                remaining[1] -= 1
                if min(remaining) < 0:
                    raise UsageError(f"{wheel.name} is too large: sets take {MOST_BYTES} bytes in {MOST_FILES} files")
                target = folder / place
                # Of a file that two packages bring, the first stays: mostly a stray licence or a folder of tests.
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, target.open("wb") as copy:
                        shutil.copyfileobj(source, copy, 1 << 20)
                modules |= _module(place)
    except (zipfile.BadZipFile, OSError, RuntimeError) as error:
        raise UsageError(f"{wheel.name} cannot be unpacked: {type(error).__name__}") from error
    return modules


def _places(archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Files and their places: never outside of the folder, and never where a start would run them."""
    for member in archive.infolist():
        parts = PurePosixPath(member.filename).parts
        if member.is_dir() or not parts or parts[0] == "/" or ".." in parts:
            continue
        if parts[0].endswith(".data"):
            if len(parts) < 3 or parts[1] not in _SCHEMES:
                continue
            parts = parts[2:]
        if len(parts) == 1 and (parts[0].endswith(".pth") or parts[0].startswith(("sitecustomize.", "usercustomize."))):
            continue
        if parts[0] in ("sitecustomize", "usercustomize", "__pycache__"):
            continue
        yield member, PurePosixPath(*parts)


def _module(place: PurePosixPath) -> set[str]:
    first = place.parts[0]
    if first.endswith(_OF_A_DISTRIBUTION) or not place.name.endswith((".py", *_BINARY)):
        return set()
    name = first.split(".", 1)[0] if len(place.parts) == 1 else first
    return {name} if name.isidentifier() else set()


def compile_all(folder: Path) -> None:
    """Compile every module, with the paths of the jail: guests cannot write what they compile."""
    # A child that only parses: no module is imported. Some files are for other Pythons, which is no failure.
    command = [
        sys.executable, "-I", "-S", "-m", "compileall", "-qq", "-j", "0", "--invalidation-mode", "unchecked-hash",
        "-s", str(folder), "-p", GUEST_FOLDER, str(folder),
    ]  # fmt: skip
    subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def lock_away(folder: Path) -> None:
    """Let all read and nobody write: in the jail another user may be the reader."""
    for top, _, names in os.walk(folder):
        for name in names:
            os.chmod(os.path.join(top, name), 0o444)
        # S103: the reader may be another user; what is in it is public.
        os.chmod(top, 0o755)  # noqa: S103


# ----------------------------------------------------------------------------------------------------
# Lock file beside the config: the wheels of each package set, by version and hash. It names no registry.

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
