"""The real servers, installed once into `build/servers`: npm packages, and PyPI ones in an environment of their own."""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "servers"
NPM = {f"@modelcontextprotocol/server-{name}": "2026.8.31" for name in ("everything", "filesystem", "memory")}
NPM["@modelcontextprotocol/server-sequential-thinking"] = "2026.8.31"
PYPI = {
    "mcp-server-time": "2026.10.19",
    "mcp-server-git": "2026.10.19",
    "mcp-server-motherduck": "1.1.0",
    "excel-mcp-server": "2.2.2",
}
_SECONDS = 600
# A registry that does not answer is to be told soon.
_NPM_BOUNDS = ("--fetch-timeout=60000", "--fetch-retries=1")
_PIP_BOUNDS = ("--retries", "1", "--timeout", "60")


class CannotInstall(Exception):
    """A registry is out of reach, or a tool that installs is missing."""


def npm_command(name: str) -> str:
    return str(FOLDER / "npm" / "node_modules" / ".bin" / f"mcp-server-{name}")


def python_command(name: str) -> str:
    return str(FOLDER / "venv" / "bin" / name)


def install_npm() -> None:
    """Raises `CannotInstall`."""
    wanted = [f"{name}@{version}" for name, version in NPM.items()]
    npm = shutil.which("npm")
    if npm is None:
        raise CannotInstall("npm is not installed")
    # No package needs its scripts to run, so none gets to run one.
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", *_NPM_BOUNDS]
    _once("npm", wanted, [[npm, "install", *options, "--prefix", str(FOLDER / "npm"), *wanted]])


def install_python() -> None:
    """Raises `CannotInstall`."""
    wanted = [f"{name}=={version}" for name, version in PYPI.items()]
    pip = [python_command("python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *_PIP_BOUNDS]
    _once("venv", wanted, [[sys.executable, "-m", "venv", str(FOLDER / "venv")], [*pip, *wanted]])


def _once(name: str, wanted: list[str], commands: list[list[str]]) -> None:
    stamp = FOLDER / f"{name}.installed"
    if stamp.exists() and stamp.read_text() == "\n".join(wanted):
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise CannotInstall(f"{Path(command[0]).name} did not end within {_SECONDS} seconds") from error
        if done.returncode:
            lines = [line for line in (done.stderr or done.stdout).splitlines() if line and "complete log" not in line]
            raise CannotInstall(f"{Path(command[0]).name} failed: {(lines or ['no words'])[-1]}")
    stamp.write_text("\n".join(wanted))
