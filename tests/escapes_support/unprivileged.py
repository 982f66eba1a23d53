"""Runs our code as a user without any rights, in an interpreter and a copy that this user can read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

USER: Final = 64_077
"""Nobody's."""
_ROOT: Final = Path(__file__).parents[2]
_SECONDS: Final = 500.0


class NoInterpreter(Exception):
    """No Python of this version can be reached by another user."""


def run_as_nobody() -> dict[str, str]:
    """Verdict by attack."""
    process = python_as_nobody(
        "-m", "tests.escapes_support", copy=["src", "tests/escapes", "tests/escapes_support", "tests/ports.py"]
    )
    if process.returncode:
        raise RuntimeError(process.stderr[-2000:])
    verdicts: dict[str, str] = json.loads(process.stdout)
    return verdicts


def python_as_nobody(*arguments: str, copy: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Python in a folder with a copy of these parts of the repository."""
    interpreter = _find_interpreter()
    folder = Path(tempfile.mkdtemp(prefix="copy-for-nobody-"))
    try:
        path = _copy_to(folder, copy)
        return _as_nobody([interpreter, "-B", *arguments], cwd=folder, PYTHONPATH=path)
    finally:
        shutil.rmtree(folder)


def _find_interpreter() -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    ours = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    for candidate in (ours, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}", "/usr/bin/python3"):
        try:
            shown = _as_nobody([candidate, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], cwd=Path("/"))
        except OSError:
            continue
        if shown.returncode == 0 and shown.stdout.strip() == version:
            return candidate
    raise NoInterpreter(f"no Python {version} that another user can reach; install one under /usr")


def _copy_to(folder: Path, parts: Sequence[str]) -> str:
    ignore = shutil.ignore_patterns("__pycache__")
    for part in parts:
        if (_ROOT / part).is_file():
            shutil.copy(_ROOT / part, folder / part)
        else:
            shutil.copytree(_ROOT / part, folder / part, ignore=ignore)
    # The engine's only package that is not the standard library's.
    shutil.copytree(Path(msgspec.__file__).parent, folder / "packages" / "msgspec", ignore=ignore)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o644))
    return os.pathsep.join(str(folder / part) for part in ("src", "packages"))


def _as_nobody(command: list[str], *, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        user=USER,
        group=USER,
        extra_groups=[],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
