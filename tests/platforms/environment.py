"""Environments whose interpreters take this system for another one, made from the one that runs this."""

import ast
import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import mypy

from toolfold.engines.wasm import artifacts

PLATFORMS = ("darwin", "win32")
ALL_PLATFORMS = (*PLATFORMS, "linux")
"""With the one that is real: there, the fakes do no more than to choose the wasm engine."""
MODULES = (
    "errno", "fcntl", "grp", "mmap", "os", "pty", "pwd", "readline", "resource", "select", "selectors", "signal", "socket",
    "syslog", "termios", "time", "tty",
)  # fmt: skip
"""Those of which a platform may lack a part, or all."""
_STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"
_START = """\
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("faked", {file!r})
faked = importlib.util.module_from_spec(spec)
sys.modules["faked"] = faked
spec.loader.exec_module(faked)
faked.install({platform!r}, json.loads({missing!r}))
"""


_TASKKILL = """\
#!/bin/sh
# taskkill /F /T /PID NUMBER
end() { for child in $(cat "/proc/$1/task/$1/children"); do end "$child"; done; kill -9 "$1"; }
end "$4"
"""
"""The command of Windows that ends a process and all below it."""


def make_environment(folder: Path, platform: str) -> Path:
    """Its interpreter; it has all packages of this environment."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    # Not a path: a folder of packages has files for the start itself.
    (packages / "others.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    missing = json.dumps({name: missing_names(name, platform) for name in MODULES})
    file = str(Path(__file__).with_name("faked.py"))
    (packages / "sitecustomize.py").write_text(_START.format(file=file, platform=platform, missing=missing))
    if platform == "win32":
        command = folder / "bin" / "taskkill"
        command.write_text(_TASKKILL)
        command.chmod(0o755)
    return folder / "bin" / "python"


def share_code(python: Path, cache: Path) -> None:
    """Give it the compiled interpreter of this system, which to it is that of another one: a minute saved."""
    ask = "from toolfold.engines.wasm import artifacts; print(artifacts.locate().code)"
    environment = {**os.environ, artifacts.CACHE_VARIABLE: str(cache)}
    text = subprocess.run([python, "-c", ask], env=environment, check=True, capture_output=True, text=True).stdout
    artifacts.prepare(cache)
    with suppress(FileExistsError):
        Path(text.strip()).hardlink_to(artifacts.locate(cache).code)


def missing_names(module: str, platform: str) -> list[str] | None:
    """Names that a module has on Linux and not on a platform; `None` if it does not exist there."""
    stub = _STUBS / f"{module}.pyi"
    tree = ast.parse((stub if stub.exists() else _STUBS / module / "__init__.pyi").read_text())
    here, there = (set(_names(tree.body, name)) for name in ("linux", platform))
    is_there = any(not name.startswith("_") for name in there)
    return sorted(here - there) if is_there else None


def _names(body: Sequence[ast.stmt], platform: str) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.If():
                yield from _names(statement.body if _holds(statement.test, platform) else statement.orelse, platform)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.ImportFrom():  # only one with `as` is the module's own
                yield from (alias.name for alias in statement.names if alias.asname == alias.name)


def _holds(test: ast.expr, platform: str) -> bool:
    names = {"sys": type("sys", (), {"platform": platform, "version_info": sys.version_info}), "TYPE_CHECKING": False}
    return bool(eval(compile(ast.Expression(test), "stub", "eval"), names))
