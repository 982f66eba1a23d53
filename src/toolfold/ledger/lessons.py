"""What tools were seen to return, kept beside the executions: one lesson for each tenant and tool, bounded.

What is handed over is added to what is there, so that any number of processes learn together.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from toolfold.ledger.seal import NoSeal, Seal
from toolfold.tools.learning import MOST_TOOLS, Lesson, added

MOST_LESSONS: Final = 4 * MOST_TOOLS
"""Of all tenants: 16 MiB at most."""

LESSONS: Final = """
CREATE TABLE lessons (
    tenant TEXT NOT NULL,
    tool BLOB NOT NULL,
    touched_at REAL NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (tenant, tool)
)
"""
"""`tool` is a digest of the tool's name, which only the sealed body has."""

encode: Final = msgspec.msgpack.Encoder().encode
decode: Final = msgspec.msgpack.Decoder(Lesson).decode


class LessonTable:
    """The lessons of a SQLite ledger, on one connection; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection, seal: Seal | NoSeal) -> None:
        self._db = connection
        self._seal = seal

    def add(self, tenant: str, lesson: Lesson) -> None:
        """To what is there; beyond the bounds, what was touched longest ago goes."""
        place = (tenant, self._seal.digest(lesson.tool.encode()))
        found = self._db.execute("SELECT body FROM lessons WHERE tenant = ? AND tool = ?", place).fetchone()
        whole = added(None if found is None else self._open(*place, found[0]), lesson)
        body = self._seal.seal(encode(whole), _lesson_place(*place))
        self._db.execute("INSERT OR REPLACE INTO lessons VALUES (?, ?, ?, ?)", (*place, time.time(), body))
        if found is None:
            self._make_room(tenant)

    def of(self, tenant: str) -> list[Lesson]:
        """Those that were touched last come last."""
        found = self._db.execute(
            "SELECT tool, body FROM lessons WHERE tenant = ? ORDER BY touched_at DESC LIMIT ?", (tenant, MOST_TOOLS)
        )
        return [self._open(tenant, tool, body) for tool, body in found][::-1]

    def reseal(self, new: Seal) -> None:
        """With another key; the digests are made with it, too."""
        for tenant, tool, touched_at, body in self._db.execute("SELECT * FROM lessons").fetchall():
            lesson = self._open(tenant, tool, body)
            name = new.digest(lesson.tool.encode())
            self._db.execute("DELETE FROM lessons WHERE tenant = ? AND tool = ?", (tenant, tool))
            sealed = new.seal(encode(lesson), _lesson_place(tenant, name))
            self._db.execute("INSERT INTO lessons VALUES (?, ?, ?, ?)", (tenant, name, touched_at, sealed))

    def _open(self, tenant: str, tool: bytes, body: bytes) -> Lesson:
        return decode(self._seal.open(body, _lesson_place(tenant, tool)))

    def _make_room(self, tenant: str) -> None:
        oldest = "DELETE FROM lessons WHERE rowid IN (SELECT rowid FROM lessons {} ORDER BY touched_at DESC, rowid DESC"
        self._db.execute(oldest.format("WHERE tenant = ?") + " LIMIT -1 OFFSET ?)", (tenant, MOST_TOOLS))
        self._db.execute(oldest.format("") + " LIMIT -1 OFFSET ?)", (MOST_LESSONS,))


class MemoryLessons:
    """The same for a ledger that ends with its process."""

    def __init__(self) -> None:
        self._lessons: dict[tuple[str, str], bytes] = {}

    def add(self, tenant: str, lesson: Lesson) -> None:
        """To what is there; the oldest make room."""
        key = (tenant, lesson.tool)
        known = self._lessons.pop(key, None)
        self._lessons[key] = encode(added(None if known is None else decode(known), lesson))
        if known is not None:
            return
        own = [one for one in self._lessons if one[0] == tenant]
        if len(own) > MOST_TOOLS:
            del self._lessons[own[0]]
        if len(self._lessons) > MOST_LESSONS:
            del self._lessons[next(iter(self._lessons))]

    def of(self, tenant: str) -> Sequence[Lesson]:
        """Those that were touched last come last."""
        return [decode(body) for (owner, _), body in self._lessons.items() if owner == tenant]


def _lesson_place(tenant: str, tool: bytes) -> str:
    return f"lesson/{tenant}/{tool.hex()}"
