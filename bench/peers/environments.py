"""An environment for each peer under `build/peers`, made once with `venv` and `pip` at the pinned versions."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(__file__).parent / "requirements"
FOLDER = ROOT / "build" / "peers"


class NotInstalled(Exception):
    """A peer that cannot be installed here; the text says why."""


def python_of(peer: str, say: Callable[[str], None]) -> Path:
    """The interpreter of that peer's environment; ours where it needs none of its own."""
    pinned = REQUIREMENTS / f"{peer}.txt"
    if not pinned.exists():
        return Path(sys.executable)
    folder = FOLDER / peer
    stamp, python = folder / "pinned", folder / "bin" / "python"
    wanted = hashlib.sha256(pinned.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        say(f"installing {peer} into {folder.relative_to(ROOT)} (once)")
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        # The list is whole, so nothing is resolved again.
        _run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(pinned)])
        stamp.write_text(wanted)
    return python


def environment(peer: str) -> dict[str, str]:
    """What its process sees: our sources come first, and no cache of it lands in the repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    paths = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
    return {**kept, "PYTHONPATH": paths, "MPLBACKEND": "agg", "MPLCONFIGDIR": str(FOLDER / peer / "matplotlib")}


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR: ")]
        raise NotInstalled((errors or lines or ["no reason given"])[-1].removeprefix("ERROR: "))
