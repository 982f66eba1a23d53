"""The lower end of the terminal, where a long program's calls are drawn; whoever writes has it cleared first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stage:
    """One for the process, which has one terminal. A drawing comes again with its next frame."""

    def __init__(self) -> None:
        self._clear: Callable[[], None] | None = None
        self._held = 0
        self._is_at_start = True

    @property
    def is_free(self) -> bool:
        """Nobody is being asked something there, and the cursor stands at the beginning of a line."""
        return not self._held and self._is_at_start

    def taken(self, clear: Callable[[], None] | None) -> None:
        """There is a drawing now, which this takes away; `None`: there is none."""
        self._clear = clear

    def clear(self) -> None:
        """Before anything is written."""
        if self._clear is not None:
            clear, self._clear = self._clear, None
            clear()

    def wrote(self, text: str) -> None:
        """The program printed this."""
        self._is_at_start = text.endswith("\n")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is drawn while somebody reads a question and types."""
        self.clear()
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1


stage = Stage()
