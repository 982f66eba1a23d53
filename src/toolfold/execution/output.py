"""What a program printed: all of it for the ledger, the start of it for the outcome."""

from __future__ import annotations

from typing import Final

REPORT_CHARACTERS: Final = 64 * 1024
"""A traceback can hold a message of any length; a longer one is cut as output is."""


class Output:
    """One stream; the outcome's part is cut on a character boundary."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap_bytes = cap_bytes
        self._parts: list[str] = []
        self._report = ""
        self._dropped_bytes = 0

    @property
    def dropped_bytes(self) -> int:
        """How much was dropped before it came here."""
        return self._dropped_bytes

    def add(self, text: str, dropped_bytes: int = 0, *, is_report: bool = False) -> None:
        """Text that came, and how much was dropped behind it before it came here.

        A report is the traceback at the end: the limit is for what the program prints.
        """
        if is_report and len(text) <= REPORT_CHARACTERS:
            self._report += text
        else:
            self._parts.append(text)
        self._dropped_bytes += dropped_bytes

    def whole(self) -> str:
        """All that came."""
        return "".join(self._parts) + self._report

    def cut(self) -> tuple[str, int]:
        """What the outcome shows, and how many bytes it leaves out."""
        text = self.whole()
        if len(text) * 4 <= self._cap_bytes:
            return text, self._dropped_bytes
        data = "".join(self._parts).encode()
        shown = data[: self._cap_bytes].decode(errors="ignore")
        cut_bytes = len(data) - len(shown.encode())
        between = "\n" if self._report and cut_bytes and shown and not shown.endswith("\n") else ""
        return shown + between + self._report, cut_bytes + self._dropped_bytes
