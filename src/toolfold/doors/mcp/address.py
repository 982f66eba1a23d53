"""Where `--http` listens, and whether that is safe; told before the SDK is loaded, so must not import it."""

from __future__ import annotations

from typing import Final

from toolfold.doors.loopback import is_loopback
from toolfold.errors import UsageError

TOKEN_VARIABLE: Final = "TOOLFOLD_MCP_TOKEN"  # noqa: S105 - its name, not the secret


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[::1]:PORT` or a bare port.

    Raises:
        UsageError: it is neither.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--http {text!r} is no address; write HOST:PORT, as in 127.0.0.1:8765")
    return host, int(port)


def guarded(host: str, port: int, *, token: str) -> None:
    """Only loopback may do without a token.

    Raises:
        UsageError: whoever reaches the address could run programs.
    """
    if not token and not is_loopback(host):
        raise UsageError(f"--http {host}:{port} is reachable from outside; set {TOKEN_VARIABLE} to a secret first")
