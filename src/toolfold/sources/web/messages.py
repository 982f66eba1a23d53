"""What goes to a server and what comes back, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    """One request, without what proves who sends it."""

    method: str
    url: str
    """Whole and encoded."""
    headers: tuple[tuple[str, str], ...] = ()
    content: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebReply:
    """One answer, read to its end."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    """With names in lower case; without cookies, which are secrets of the connection."""
    content: bytes

    def header(self, name: str) -> str:
        """The first header of this name, or an empty text."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def mime(self) -> str:
        """The media type, without its parameters."""
        return self.header("content-type").partition(";")[0].strip().lower()
