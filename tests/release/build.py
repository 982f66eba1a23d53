"""Builds of the package from copies of the tracked files, to compare them: used by the quick and by the long test."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked_files() -> list[str]:
    """Files of this tree that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()})


def copy_tree(folder: Path, *, modified: int, umask: int) -> Path:
    """The tracked files as another machine has them: with other times and other rights."""
    for name in tracked_files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        executable = os.access(ROOT / name, os.X_OK)
        target.chmod((0o777 if executable else 0o666) & ~umask)
        os.utime(target, (modified, modified))
    return folder


def build(python: str, source: Path, target: Path, environment: dict[str, str] | None = None) -> list[Path]:
    """Wheel and sdist of a tree, in this order."""
    command = [python, "-m", "hatchling", "build", "-d", str(target)]
    subprocess.run(command, cwd=source, env=os.environ | (environment or {}), check=True, capture_output=True)
    return sorted(target.iterdir(), key=lambda path: path.suffix != ".whl")


def hashes(files: list[Path]) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
