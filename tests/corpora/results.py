"""The rows of a run, one line of JSON each: a second start goes on where the first was ended."""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.corpora.judge import WRONG

_ROOT: Final = Path(__file__).parents[2]
Row = dict[str, Any]


class Results:
    """Of each program the last row counts."""

    def __init__(self, path: Path) -> None:
        self.rows: dict[str, Row] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            for line in path.read_text("utf-8", "surrogatepass").splitlines():
                self._keep(line)
        self._path = path

    def _keep(self, line: str) -> None:
        try:
            row = json.loads(line)
        except ValueError:
            return  # what a run that was killed had begun to write
        self.rows[row["key"]] = row

    def add(self, row: Row) -> None:
        self.rows[row["key"]] = row
        with self._path.open("a", encoding="utf-8", errors="surrogatepass") as file:
            file.write("\n" + json.dumps(row))  # on a line of its own, also after half a line

    def of(self, verdict: str) -> Iterator[Row]:
        return (row for row in self.rows.values() if row["verdict"] == verdict)

    @property
    def counts(self) -> dict[str, Counter[str]]:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for row in self.rows.values():
            counts[row["corpus"]][row["verdict"]] += 1
        return counts

    @property
    def wrong(self) -> int:
        return sum(row["verdict"] in WRONG for row in self.rows.values())


def tree() -> str:
    """The commit that a part ran on; `+` where files were changed since."""
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    return commit + ("+" if _git("status", "--porcelain", "--untracked-files=no", "src") else "")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=_ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
