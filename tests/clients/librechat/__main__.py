"""`make test-librechat`: the real npm clients of LibreChat against a real server, as one table.

Installs both generations into `build/librechat` once, without their install scripts. Where npm or
the registry cannot be had it says NOT RUN, loudly, and ends well.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build/librechat"
CLIENTS = {"3.9.2 esm": ("c392", "3.9.2", ""), "3.9.2 cjs": ("c392", "3.9.2", "1"), "3.0.50": ("c3050", "3.0.50", "")}
CONFIG = "http: {{keys: {{one: test-key}}, port: 0, files: files, starts_per_minute: {starts}}}\nledger: {{where: runs.sqlite}}\n"


def main() -> int:
    if shutil.which("npm") is None or shutil.which("node") is None:
        return not_run("node and npm are not installed")
    for folder, version, _ in CLIENTS.values():
        problem = install(BUILD / folder, version)
        if problem:
            return not_run(f"@librechat/agents {version} could not be installed: {problem}")
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(Path(folder) / "a", 6000) as base,
        serve(Path(folder) / "b", 1) as narrow,
    ):
        tables = {name: drive(BUILD / place, cjs, base, narrow) for name, (place, _, cjs) in CLIENTS.items()}
    return show(tables)


def not_run(reason: str) -> int:
    print(f"NOT RUN: the LibreChat clients; {reason}")
    return 0


def install(folder: Path, version: str) -> str:
    """Why it could not be done; nothing if it is there."""
    if (folder / "node_modules/@librechat/agents/package.json").exists():
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n', "utf-8")
    # Without scripts: a dependency sends telemetry at its installation.
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    done = subprocess.run(
        [*command, f"@librechat/agents@{version}", "node-fetch@2.7.0"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]


@contextlib.contextmanager
def serve(folder: Path, starts: int) -> Iterator[str]:
    """The address of a `toolfold serve`."""
    folder.mkdir()
    (folder / "toolfold.yaml").write_text(CONFIG.format(starts=starts), "utf-8")
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    command = [sys.executable, "-m", "toolfold", "serve", "--config", str(folder / "toolfold.yaml")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = re.search(r"listening on (\S+)", line)
            if match is None:
                raise SystemExit(line + process.stderr.read())
            wait_until_ready(match[1])
            yield match[1]
        finally:
            process.terminate()


def wait_until_ready(address: str) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/ready", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise SystemExit(f"no server at {address}")


def drive(client: Path, cjs: str, base: str, narrow: str) -> dict[str, dict[str, object]]:
    environment = {**os.environ, "BASE_URL": base, "NARROW_URL": narrow, "CLIENT_DIR": str(client)}
    if cjs:
        environment["CJS"] = cjs
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("drive.mjs"))],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    if not rows:
        raise SystemExit(f"the driver of {client.name} failed:\n{done.stderr[-2000:]}")
    return {row["name"]: row for row in rows}


def show(tables: dict[str, dict[str, dict[str, object]]]) -> int:
    names = list(dict.fromkeys(name for table in tables.values() for name in table))
    print(f"{'scenario':<18}" + "".join(f"{client:>16}" for client in tables))
    for name in names:
        cells = []
        for table in tables.values():
            row = table.get(name)
            cells.append("-" if row is None else f"{'ok' if row['ok'] else 'FAILED'} {row['ms']} ms")
        print(f"{name:<18}" + "".join(f"{cell:>16}" for cell in cells))
    failed = [(client, row) for client, table in tables.items() for row in table.values() if not row["ok"]]
    for client, row in failed:
        print(f"\n{client} {row['name']}:\n{row['said']}")
    print(f"{sum(map(len, tables.values())) - len(failed)} ok, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
