"""A program saved under the workspace, where the parent's tools may have put links: none is followed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from toolfold.errors import UsageError
from toolfold.sources.files import replace_file

FOLDER: Final = ".python_tmp"


def save_program(text: str, filename: str, workspace: Path) -> str:
    """Write the program; its path relative to the workspace.

    Raises:
        UsageError: `filename` is no plain file name, or cannot be written.
    """
    name = filename if filename.endswith(".py") else f"{filename}.py"
    if name != os.path.basename(name) or name.startswith(".") or not name.isprintable() or "\\" in name:
        raise UsageError(f"filename {filename!r} is not a plain file name; give one without folders, like 'report.py'")
    try:
        _write(name, text.encode("utf-8", "surrogatepass"), workspace)
    except OSError as error:
        raise UsageError(f"filename {filename!r} cannot be written: {error.strerror}") from error
    return f"{FOLDER}/{name}"


def _write(name: str, data: bytes, workspace: Path) -> None:
    with suppress(FileExistsError):
        os.mkdir(workspace / FOLDER)
    folder = os.open(workspace / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        replace_file(name, data, folder)
    finally:
        os.close(folder)
