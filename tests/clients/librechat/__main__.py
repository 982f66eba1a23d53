"""The real npm clients of LibreChat against a real server: `python -m tests.clients.librechat FOLDER`.

`make test NAME=librechat` fetches both generations into FOLDER first, and says NOT RUN where it cannot. Prints one table.
Exit 1: a scenario failed.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

CLIENTS = {"3.9.2 esm": ("agents-3.9.2", ""), "3.9.2 cjs": ("agents-3.9.2", "1"), "3.0.50": ("agents-3.0.50", "")}
CONFIG = "http: {{keys: {{one: test-key}}, port: 0, files: files, starts_per_minute: {starts}}}\nledger: {{where: runs.sqlite}}\n"


def main(packages: Path) -> int:
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(Path(folder) / "a", 6000) as base,
        serve(Path(folder) / "b", 1) as narrow,
    ):
        book = Path(folder) / "sales.xlsx"
        pd.DataFrame({"item": ["a", "b"], "price": [1, 2]}).to_excel(book, index=False)
        table = Path(folder) / "stock.csv"
        table.write_text("name,price,since\nzoé,2.5,2024-01-02\nada,1.25,2024-02-03\nbo,4.0,2024-03-04\n", "utf-8")
        given = {"BASE_URL": base, "NARROW_URL": narrow, "WORKBOOK": str(book), "TABLE": str(table)}
        tables = {}
        for name, (client, cjs) in CLIENTS.items():
            downloads = Path(folder) / "downloads" / name
            downloads.mkdir(parents=True)
            tables[name] = drive(packages / client, cjs, {**given, "DOWNLOADS": str(downloads)})
            tables[name]["tables_equal"] = compare(book, table, downloads)
    return show(tables)


def compare(book: Path, table: Path, downloads: Path) -> dict[str, object]:
    """What the client downloaded beside what pandas makes of the same files here."""
    began = time.perf_counter()
    try:
        wanted = pd.read_excel(book)
        wanted["price"] *= 61
        pd.testing.assert_frame_equal(pd.read_excel(downloads / "changed.xlsx"), wanted)
        stock = pd.read_csv(table)
        stock["price"] *= 61
        expected = stock.sort_values("name").to_csv(index=False)
        found = (downloads / "changed.csv").read_text("utf-8")
        is_equal, said = found == expected, found
    except (AssertionError, OSError) as error:
        is_equal, said = False, str(error)
    return {"name": "tables_equal", "ok": is_equal, "ms": round((time.perf_counter() - began) * 1000), "said": said}


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


def drive(client: Path, cjs: str, given: Mapping[str, str]) -> dict[str, dict[str, object]]:
    environment = {**os.environ, **given, "CLIENT_DIR": str(client)}
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
    sys.exit(main(Path(sys.argv[1]).resolve() / "node_modules"))
