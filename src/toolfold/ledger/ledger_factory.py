"""Ledger factory: opens the one that a user names: `memory`, a server, a path, or nothing for the default file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeGuard

from toolfold.errors import UsageError, install_extra
from toolfold.ledger.base import MAX_EXECUTION_BYTES, Ledger, Retention
from toolfold.ledger.memory import SMALL, MemoryLedger
from toolfold.ledger.sqlite.store import SqliteLedger

if TYPE_CHECKING:
    from toolfold.ledger.redis.store import RedisLedger
    from toolfold.ledger.sqlite.change_key import RekeyResult

_SERVERS: Final = ("redis://", "rediss://", "valkey://", "valkeys://", "unix://")


def open_ledger(
    where: str | None = None, *, keep: Retention | None = None, key: bytes | str | None = None,
    max_execution_bytes: int = MAX_EXECUTION_BYTES,
) -> Ledger:  # fmt: skip
    """The ledger at `where`; `None` is `ledger.sqlite` in the user's state folder.

    Raises:
        UsageError: It cannot be opened, with the reason and the next step.
    """
    if where == "memory":
        if key is not None:
            raise UsageError("a ledger in memory takes no key; name a file to seal it")
        return MemoryLedger(keep=keep or SMALL, max_execution_bytes=max_execution_bytes)
    if where is not None and where.startswith(_SERVERS):
        try:
            # An optional extra: a ledger in a file does not need it.
            from toolfold.ledger.redis.store import RedisLedger  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise UsageError(
                f"a ledger on a server needs the package 'redis'; name a file, or {install_extra('redis')}"
            ) from error
        return RedisLedger(where, keep=keep, key=key, max_execution_bytes=max_execution_bytes)
    return SqliteLedger(_path(where), keep=keep, key=key, max_execution_bytes=max_execution_bytes)


def rekey_ledger(where: str | None, key: str | None, new_key: str) -> RekeyResult:
    """Another key for the ledger at `where`, which is sealed with `key`.

    Raises:
        UsageError: It cannot be done, with the reason and the next step.
    """
    if where == "memory":
        raise UsageError("a ledger in memory has no key; name a file")
    if where is not None and where.startswith(_SERVERS):
        raise UsageError("only a ledger in a file can be rekeyed; on a server, begin a new one in another database")
    # Imported here: every run opens a ledger, and hardly any gives it another key.
    from toolfold.ledger.sqlite.change_key import rekey  # noqa: PLC0415

    return rekey(_path(where), key, new_key)


def reindex_ledger(where: str | None, key: str | None, report: Callable[[int], None]) -> int:
    """Write the search index of the ledger at `where` anew; the number of executions.

    Raises:
        UsageError: It cannot be done, with the reason and the next step.
    """
    if where == "memory" or (where is not None and where.startswith(_SERVERS)):
        raise UsageError("only a ledger in a file has a search index; name a file")
    # Imported here: every run opens a ledger, and hardly any searches it.
    from toolfold.ledger.sqlite.word_index import reindex  # noqa: PLC0415

    if key is not None:
        raise UsageError("an encrypted ledger has no search index, which would tell what the key hides")
    path = _path(where)
    SqliteLedger(path)._close()  # brings a file of the format before to today's
    return reindex(path, report)


def is_shared(ledger: Ledger) -> TypeGuard[RedisLedger]:
    """Whether replicas on several machines can use it at once."""
    return hasattr(ledger, "hold_as")


def _path(where: str | None) -> Path:
    return default_path() if where is None else Path(where).expanduser()


def default_path() -> Path:
    """The default file; its folder is made for this user only."""
    # Imported here: who names a ledger does not need it.
    import platformdirs  # noqa: PLC0415

    folder = platformdirs.user_state_path("toolfold")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise UsageError(
            f"the folder {str(folder)!r} for the ledger cannot be created: {reason}; "
            "name another file with --ledger, or record nothing with --ledger memory"
        ) from error
    return folder / "ledger.sqlite"
