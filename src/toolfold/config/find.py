"""Where the nearest `toolfold.yaml` is. Reads none: commands without one start without the types of a config."""

from __future__ import annotations

import os
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
    here = Path.cwd().resolve()
    folders = (here, *here.parents, platformdirs.user_config_path("toolfold", appauthor=False))
    for folder in folders:
        path = folder / FILE_NAME
        if path.is_file():
            if hasattr(os, "geteuid") and path.stat().st_uid not in (0, os.geteuid()):
                raise UsageError(f"{shown_path(path)} belongs to another user; name it yourself if you trust it")
            return path
    return None


def shown_path(path: Path) -> str:
    """As given; below the current folder, without it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
