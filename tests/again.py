"""`python -m tests.again ARGS`: pytest, and a second try, alone, for the few tests that failed.

With thousands of tests that start processes on two cores, one may lose a race that has nothing to do with the change.
A test that passes the second time is named in the last lines as UNSTABLE, to be mended; one that fails twice fails
the run, and so do more than a few failures, which are no accident.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from toolfold.engines.process import shell_commands

MOST = 3
OF_BASH = ("*/test_bash*.py", "*/process/test_shell*.py", "*/test_shell_escapes.py")
_FAILED = 1  # pytest's status for "some tests failed"
_LAST_FAILED = Path("v", "cache", "lastfailed")


def main(arguments: list[str], cache: Path = Path(".pytest_cache")) -> int:
    """The exit status of the first try, or 0 if those that failed passed alone."""
    last_failed = cache / _LAST_FAILED
    # Of an earlier run: pytest forgets of it only what is run again.
    last_failed.unlink(missing_ok=True)
    missing = bash_refusal()
    if missing:
        print(f"NOT RUN: {', '.join(OF_BASH)}: {missing}", flush=True)
        arguments = [*arguments, *(f"--ignore-glob={pattern}" for pattern in OF_BASH)]
    status = _pytest(arguments)
    failed = sorted(json.loads(last_failed.read_text())) if status == _FAILED and last_failed.exists() else []
    if not 0 < len(failed) <= MOST:
        return status
    print(f"once more, alone: {len(failed)} that failed", flush=True)
    status = _pytest(["-q", *failed])
    if not status:
        print("\n".join(f"UNSTABLE {name}: failed beside other tests, passed alone" for name in failed))
    return status


def bash_refusal() -> str:
    """What bash programs lack on this machine after Debian's packages were installed, where this user may."""
    refusal = shell_commands.refusal()
    if refusal and os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing the commands of bash programs (once)", flush=True)
        # A fresh machine has no lists yet.
        subprocess.run(["apt-get", "update", "-qq"], stdout=subprocess.DEVNULL, check=False)
        install = ["apt-get", "install", "-y", "-qq", *shell_commands.PACKAGES.split()]
        subprocess.run(install, stdout=subprocess.DEVNULL, check=False)
        refusal = shell_commands.refusal()
    return refusal


def _pytest(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
