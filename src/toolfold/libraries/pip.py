"""Wheels from the package index, by pip: resolved, downloaded, and never built or installed.

Wheels only: a source distribution would run its own code to be built. Where from is a matter of pip's own settings.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from toolfold.errors import UsageError
from toolfold.libraries.lock import LockedSet, Wheel, named_by, target

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
    """Resolve packages and all they need, and put the wheels into a folder. `pins` are versions to keep to.

    Raises:
        UsageError: one line that says what is wrong.
    """
    requirements = _written(folder.parent / "requirements.txt", packages)
    constraints = _written(folder.parent / "constraints.txt", pins)
    _run(folder, "--requirement", requirements, "--constraint", constraints)


def download_locked(locked: LockedSet, folder: Path) -> None:
    """Exactly the wheels of a lock.

    Raises:
        UsageError: one of them is not available, or is another file.
    """
    lines = [f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}" for wheel in locked.wheels]
    _run(folder, "--no-deps", "--require-hashes", "--requirement", _written(folder.parent / "locked.txt", lines))


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
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PIP_REQUIRE_VIRTUALENV", "PIP_TARGET")
    }
    try:
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(f"pip cannot be started: {error.strerror}") from error
    if "No module named pip" in done.stderr:
        raise UsageError("there is no pip beside toolfold; install it with 'python -m ensurepip'")
    return done


def _written(path: Path, lines: Sequence[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def _reason(said: str, folder: Path) -> str:
    """One line without addresses: those may hold the password of a registry."""
    if found := _HASHES.search(said):
        return f"the hash of {found[1]!r} is not the one in the lock: the index has another file under the same version"
    if found := _CONFLICT.search(said):
        return f"the packages contradict each other: {_joined(found[1])}"
    missing = _NOT_FOUND.search(said)
    if _NO_ANSWER.search(said):
        return UNREACHABLE
    if missing is None:
        errors = re.findall(r"^ERROR: (.*)$", said, re.MULTILINE)
        return f"pip failed: {re.sub(r'[a-z]+://[^ ]+', 'an address', errors[-1] if errors else 'it gave no reason')}"
    return _why_missing(missing[1], said, folder)


def _joined(lines: str) -> str:
    return "; ".join(line.strip() for line in lines.splitlines())


def _why_missing(requirement: str, said: str, folder: Path) -> str:
    """Not there at all, not in that version, or only as source."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement)[0]
    wheels = re.search(r"from versions: ([^)]*)\)", said)
    if wheels and wheels[1] != "none":
        latest = wheels[1].split(", ")[-5:]
        return f"there is no wheel of {requirement!r} for this machine ({target()}); the newest are {', '.join(latest)}"
    # Without building anything: this only reads the list of files.
    known = _pip([*_PIP, "index", "versions", name, "--no-binary", ":all:", "--pre"], folder)
    if known.returncode == 0:
        return f"{name!r} has no wheel for this machine ({target()}); toolfold builds nothing from source"
    return f"no package {name!r} on the index; is it spelt right?"


def wheels_in(folder: Path) -> tuple[Wheel, ...]:
    """What was downloaded, with the hashes of the files that are there."""
    # Imported here: the hashes of a lock are compared by pip already.
    import hashlib  # noqa: PLC0415

    found = []
    for path in sorted(folder.glob("*.whl")):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found.append(Wheel(*named_by(path.name), path.name, digest))
    return tuple(sorted(found))
