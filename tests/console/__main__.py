"""`make test NAME=console`: the console's page in a real Chromium, driven by Playwright; says NOT RUN where that is not had."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

PLAYWRIGHT = "playwright==1.65.0"
USUAL = ["checks.py", "people.py", "focus.py", "attacks.py", "saved.py"]
PACKAGES = Path("build/console-packages")


def chromium() -> str | None:
    """Debian's package, installed where it is missing and this user may."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing chromium (once)", flush=True)
        # A fresh machine has no lists yet.
        subprocess.run(["apt-get", "update", "-qq"], stdout=subprocess.DEVNULL, check=False)
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], stdout=subprocess.DEVNULL, check=False)
        found = shutil.which("chromium")
    return found


def has_playwright() -> bool:
    if importlib.util.find_spec("playwright") is not None:
        return True
    if not PACKAGES.exists():
        print("fetching playwright (once)", flush=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
            "--target",
            str(PACKAGES),
        ]
        if subprocess.run([*command, PLAYWRIGHT], check=False).returncode:
            shutil.rmtree(PACKAGES, ignore_errors=True)
            return False
    return True


def main() -> int:
    what = sys.argv[1:]
    browser = chromium()
    if browser is None:
        print("NOT RUN: no chromium in PATH, and it cannot be installed here; on Debian: apt install chromium")
        return 0
    if not has_playwright():
        print(f"NOT RUN: {PLAYWRIGHT} could not be fetched; the lines above say why")
        return 0
    folder = Path(__file__).parent
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(PACKAGES.absolute())]).strip(os.pathsep)
    environment = {**os.environ, "CHROMIUM": browser, "PYTHONPATH": path}
    tests = [str(folder / one) for one in what if one.endswith(".py")] or [str(folder / one) for one in USUAL]
    options = [one for one in what if not one.endswith(".py")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *tests, *options], env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
