"""What a program printed: all of it for the ledger, the start of it for the outcome."""

from __future__ import annotations


class Output:
    """One stream; the outcome's part is cut on a character boundary."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap_bytes = cap_bytes
        self._parts: list[str] = []
        self._dropped_bytes = 0

    @property
    def dropped_bytes(self) -> int:
        """How much was dropped before it came here."""
        return self._dropped_bytes

    def add(self, text: str, dropped_bytes: int = 0) -> None:
        """Text that came, and how much was dropped behind it before it came here."""
        self._parts.append(text)
        self._dropped_bytes += dropped_bytes

    def whole(self) -> str:
        """All that came."""
        return "".join(self._parts)

    def cut(self) -> tuple[str, int]:
        """What the outcome shows, and how many bytes it leaves out."""
        text = self.whole()
        if len(text) * 4 <= self._cap_bytes:
            return text, self._dropped_bytes
        data = text.encode()
        shown = data[: self._cap_bytes].decode(errors="ignore")
        return shown, len(data) - len(shown.encode()) + self._dropped_bytes
