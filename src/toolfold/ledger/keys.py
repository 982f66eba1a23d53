"""The user's own key: seals what must be sealed where nobody gave a key. It never leaves the user's state folder.

Not beside the ledger: a ledger that came from elsewhere must not bring the key to what it holds.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_NAME: Final = "snapshot.key"
_KEY_BYTES: Final = 32

_log = logging.getLogger("toolfold.ledger")


def own_key() -> bytes | None:
    """32 bytes, made at the first use; `None` where the folder cannot be written or is not to be trusted."""
    # Imported here: who names a ledger and gives a key does not need it.
    import platformdirs  # noqa: PLC0415

    folder = platformdirs.user_state_path("toolfold")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _read(folder / _NAME)
        if key is None:
            write_once(folder / _NAME, secrets.token_bytes(_KEY_BYTES))
            key = _read(folder / _NAME)
        return key
    except OSError as error:
        _log.warning("paused programs are replayed, not kept as snapshots: no key (%s)", error.strerror)
        return None


def _read(path: Path) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        is_ours = not hasattr(os, "geteuid") or (facts.st_uid == os.geteuid() and not facts.st_mode & 0o077)
        if not stat.S_ISREG(facts.st_mode) or not is_ours:
            raise PermissionError(1, f"{_NAME!r} can be read by others")
        key = file.read(_KEY_BYTES + 1)
    if len(key) != _KEY_BYTES:
        raise OSError(5, f"{_NAME!r} holds no key")
    return key


def write_once(path: Path, data: bytes) -> None:
    """A file with these bytes, whole or not at all; one that is there stays. Of several processes one is first."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
