"""What a program printed: all of it for the ledger, the start of it for the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolfold.engines.base import Printed

REPORT_CHARACTERS: Final = 64 * 1024
"""A traceback can hold a message of any length; of a longer one the middle is left out."""
_TAIL_BYTES: Final = 2 * 1024


class Output:
    """One stream; the outcome's part is cut on a character boundary."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap_bytes = cap_bytes
        self._parts: list[str] = []
        self.characters = 0
        """How many came, without the report."""
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
        if is_report:
            self._report += text
        else:
            self._parts.append(text)
            self.characters += len(text)
        self._dropped_bytes += dropped_bytes

    def since(self, place: int) -> str:
        """What came after so many characters, without the report."""
        missing, parts = self.characters - place, []
        for part in reversed(self._parts):
            if missing <= 0:
                break
            parts.append(part[-missing:])
            missing -= len(part)
        return "".join(reversed(parts))

    def whole(self) -> str:
        """All that came."""
        return "".join(self._parts) + self._report

    def cut(self) -> tuple[str, int]:
        """What the outcome shows, which ends with a line, and how many bytes it leaves out."""
        if not self._parts and not self._report:
            return "", self._dropped_bytes
        text = self.whole()
        if len(text) * 4 <= self._cap_bytes:
            return text, self._dropped_bytes
        data = "".join(self._parts).encode()
        shown = data.decode() if len(data) <= self._cap_bytes else _start(data, self._cap_bytes)
        cut_bytes = len(data) - len(shown.encode())
        between = "\n" if self._report and cut_bytes and shown and not shown.endswith("\n") else ""
        return shown + between + _middle_out(self._report), cut_bytes + self._dropped_bytes

    def tail(self) -> str:
        """The last lines of what was printed, where `cut` leaves something out; without the report."""
        if not self._parts or sum(map(len, self._parts)) * 4 <= self._cap_bytes:
            return ""
        data = "".join(self._parts).encode()
        left = len(data) - self._cap_bytes
        return _end(data, min(left, self._cap_bytes // 4, _TAIL_BYTES)) if left > 0 else ""


class Streams:
    """Both streams of one program."""

    def __init__(self, cap_bytes: int) -> None:
        self.stdout = Output(cap_bytes)
        self.stderr = Output(cap_bytes)

    def add(self, event: Printed) -> None:
        """Text that the guest delivered."""
        stream = self.stdout if event.stream == "stdout" else self.stderr
        stream.add(event.text, event.cut_bytes, is_report=event.is_report)


def _start(data: bytes, size: int) -> str:
    """Whole lines, unless the last of them is most of it; then whole characters."""
    end = data.rfind(b"\n", 0, size + 1)
    return data[: end if end > size // 2 else size].decode(errors="ignore")


def _end(data: bytes, size: int) -> str:
    start = data.find(b"\n", len(data) - size - 1, len(data) - size // 2)
    return data[start + 1 if start >= 0 else len(data) - size :].decode(errors="ignore")


def _middle_out(report: str) -> str:
    """The frames come first and the type of the error right after them, so both ends of a long one stay."""
    left_out = len(report) - REPORT_CHARACTERS
    if left_out <= 0:
        return report
    half = REPORT_CHARACTERS // 2
    return f"{report[:half]}\n... ({left_out:,} characters left out)\n{report[-half:]}"
