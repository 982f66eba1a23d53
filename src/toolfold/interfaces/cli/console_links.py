"""Links to running consoles: their addresses in the state folder, and the page of an execution."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from toolfold.ledger.base import Ledger
from toolfold.ledger.ledger_factory import default_path
from toolfold.ledger.sqlite.store import SqliteLedger


@contextmanager
def announce_console(port: int, ledger: Ledger, base_path: str = "") -> Iterator[None]:
    """Others can find the console at this port while it runs."""
    path = _folder() / f"{port}.json"
    entry = {"pid": os.getpid(), "url": f"http://127.0.0.1:{port}{base_path}", "ledger": _name(ledger)}
    with suppress(OSError):  # a link is missing then, and nothing else
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(json.dumps(entry), "utf-8")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def page_of(ledger: Ledger, execution_id: str) -> str:
    """The address of a program's page in a console that runs; empty if none does."""
    name = _name(ledger)
    for path in sorted(_folder().glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            entry = json.loads(path.read_text("utf-8"))
            if name and entry["ledger"] == name and _is_running(entry["pid"]):
                return f"{entry['url']}/#/runs/{quote(execution_id, safe='')}"
    return ""


def _name(ledger: Ledger) -> str:
    """Which one it is; empty for one that no other process can read."""
    if isinstance(ledger, SqliteLedger):
        return str(ledger.path.resolve())
    # Not by its type: most commands do without the client of Redis.
    return str(getattr(ledger, "where", ""))


def _folder() -> Path:
    return default_path().parent / "consoles"


def _is_running(pid: int) -> bool:
    # One that was killed leaves its file behind, and its number may be another's by now.
    return b"toolfold" in Path(f"/proc/{int(pid)}/cmdline").read_bytes()
