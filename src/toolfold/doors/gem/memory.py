"""Notes that live as long as the tool object, for agents that work in several steps."""

from __future__ import annotations

import threading
from typing import Any

from toolfold.doors.gem.local import LocalTools
from toolfold.errors import ToolError


def create_memory_tool() -> LocalTools:
    """`remember`, `recall`, `list_memories`, `forget`."""
    # Any: a note is any JSON value.
    notes: dict[str, Any] = {}
    lock = threading.Lock()

    def remember(key: str, value: Any) -> str:
        """Keep a value under a key; an older one is replaced."""
        with lock:
            notes[key] = value
        return f"remembered {key}"

    def recall(key: str) -> Any:
        """The value under a key."""
        with lock:
            if key not in notes:
                raise ToolError(f"nothing is remembered under {key!r}")
            return notes[key]

    def list_memories() -> list[str]:
        """All keys, in alphabetical order."""
        with lock:
            return sorted(notes)

    def forget(key: str) -> bool:
        """Drop a key; false if it was not there."""
        with lock:
            return notes.pop(key, None) is not None

    return LocalTools("memory", [remember, recall, list_memories, forget])
