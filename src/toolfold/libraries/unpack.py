"""Wheels into a folder: files only, nothing run. What Python would run by itself at a start is left out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from toolfold.errors import UsageError

GUEST_FOLDER: Final = "/py/libraries"
MOST_BYTES: Final = 8 * 1024**3
MOST_FILES: Final = 250_000
_SCHEMES: Final = ("purelib", "platlib")
_OF_A_DISTRIBUTION: Final = (".dist-info", ".libs", ".data")
_BINARY: Final = (".so", ".pyd")


def unpack(wheels: Sequence[Path], folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Fill an empty folder; the modules of each wheel, by its file name.

    Raises:
        UsageError: a file is no wheel, or too much.
    """
    left = [MOST_BYTES, MOST_FILES]
    return {wheel.name: tuple(sorted(_unpack(wheel, folder, left))) for wheel in wheels}


def _unpack(wheel: Path, folder: Path, left: list[int]) -> set[str]:
    modules: set[str] = set()
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member, place in _places(archive):
                left[0] -= member.file_size
                left[1] -= 1
                if min(left) < 0:
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
    """Each file and where it goes, below the folder: never outside of it, and never where a start would run it."""
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
    """Compile every module: guests cannot write what they compile. The paths in it are those of the jail."""
    # A child that only parses: no module is imported. Some files are for other Pythons, which is no failure.
    command = [
        sys.executable, "-I", "-S", "-m", "compileall", "-qq", "-j", "0", "--invalidation-mode", "unchecked-hash",
        "-s", str(folder), "-p", GUEST_FOLDER, str(folder),
    ]  # fmt: skip
    subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def lock_away(folder: Path) -> None:
    """All may read, nobody writes: in the jail another user may be the reader."""
    for top, _, names in os.walk(folder):
        for name in names:
            os.chmod(os.path.join(top, name), 0o444)
        # S103: the reader may be another user; what is in it is public.
        os.chmod(top, 0o755)  # noqa: S103
