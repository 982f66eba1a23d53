"""Config file discovery, and the `.env` file beside it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import platformdirs

from toolfold.errors import UsageError

FILE_NAME: Final = "toolfold.yaml"


def find_config() -> Path | None:
    """The nearest `toolfold.yaml` from this folder upwards, else the one in the user's configuration folder.

    Raises:
        UsageError: the nearest belongs to another user, who could make this process run anything.
    """
    current_folder = Path.cwd().resolve()
    folders = (current_folder, *current_folder.parents, platformdirs.user_config_path("toolfold", appauthor=False))
    for folder in folders:
        path = folder / FILE_NAME
        if path.is_file():
            if hasattr(os, "geteuid") and path.stat().st_uid not in (0, os.geteuid()):
                raise UsageError(f"{display_path(path)} belongs to another user; name it yourself if you trust it")
            return path
    return None


def display_path(path: Path) -> str:
    """As given; below the current folder, without it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


# ----------------------------------------------------------------------------------------------------
# A file of `NAME=value` lines, as VS Code and Cursor have for their servers.

_LINE: Final = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][\w.-]*)\s*=\s*(?P<value>.*)")
_QUOTED: Final = re.compile(r"\"(?P<double>(?:\\.|[^\"\\])*)\"|'(?P<single>[^']*)'")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(path: Path) -> dict[str, str]:
    """The variables in a file, the last value of each; errors never quote its text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot be read: {(error.strerror or 'unknown reason').lower()}") from None
    except UnicodeDecodeError:
        raise UsageError("is not UTF-8; save it as UTF-8") from None
    variables: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            raise UsageError(f"line {number} is not NAME=value")
        variables[match["name"]] = _value(match["value"])
    return variables


def _value(text: str) -> str:
    quoted = _QUOTED.match(text)
    if quoted is None:
        return re.split(r"\s#", text, maxsplit=1)[0].strip()
    if quoted["double"] is None:
        return quoted["single"]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), quoted["double"])
