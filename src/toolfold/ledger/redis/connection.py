"""Connection of a Redis ledger: address, handshake with the server, seal, shared secrets and errors."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from redis import ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, BusyLoadingError, RedisError
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import TimeoutError as NoAnswer
from redis.retry import Retry

from toolfold.errors import LedgerFailed, UsageError
from toolfold.ledger.encryption import SALT_BYTES, NoSeal, Seal, seal_with
from toolfold.ledger.redis import lua_scripts
from toolfold.steady_clock import SteadyClock, steady_seconds

FORMAT: Final = 3
SCHEMES: Final = ("redis", "rediss", "valkey", "valkeys", "unix")
# Any: the settings are of many types, and the same for the first look and for the rest.
SETTINGS: Final[dict[str, Any]] = {"protocol": 2, "socket_timeout": 10.0, "socket_connect_timeout": 3.0}

_MIGRATED_AT_ONCE: Final = 1000

_log = logging.getLogger("toolfold.ledger")


def plain_address(url: str) -> str:
    """The address in the words of the client: it does not know Valkey by name.

    Raises:
        UsageError: It is no address of a server.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise UsageError(f"unknown scheme {scheme!r} for a ledger; use one of {', '.join(SCHEMES)}")
    address = f"{scheme.replace('valkey', 'redis')}://{rest}"
    try:
        ConnectionPool.from_url(address)
    except (ValueError, TypeError) as error:
        # Its own words may repeat the password.
        raise UsageError(f"the ledger's {scheme!r} address is not valid; write {scheme}://host:port/0") from error
    return address


def handshake(url: str, prefix: str, key: bytes | str | None, clock: SteadyClock) -> Seal | NoSeal:
    """The seal that fits the ledger on this server, by whose time the clock is set.

    Blocks, for three seconds at most where nobody answers.

    Raises:
        UsageError: The ledger cannot be used, with the reason.
    """
    where = redact_url(url)
    with _connected(url) as client:
        _warn(client, where)
        facts = _facts(client, prefix)
        if int(facts["format"]) > FORMAT:
            raise UsageError(
                f"ledger {where!r} was made by a newer toolfold (format {facts['format']}, this one reads {FORMAT}); "
                "update toolfold, or name another database"
            )
        seal = _seal(client, where, prefix, key, facts)
        if int(facts["format"]) < FORMAT:
            _migrate(client, where, prefix)
        asked_at = steady_seconds()
        # Any: the client types its answers for both of its kinds at once.
        answer: Any = client.time()
        set_clock(clock, answer, asked_at)
        return seal


@contextmanager
def _connected(url: str) -> Iterator[Redis]:
    try:
        with Redis.from_url(url, retry=Retry(NoBackoff(), 0), **SETTINGS) as client:
            yield client
    except RedisError as error:
        raise UsageError(
            f"ledger {redact_url(url)!r} cannot be used: {_reason(error)}; check the server and the address"
        ) from error


# Any: the client types its answers for both of its kinds at once.
def _ask(client: Redis, prefix: str, script: str, *arguments: Any) -> Any:
    return client.eval(*script_call(prefix, script, arguments))


def script_call(prefix: str, script: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
    return lua_scripts.HEADER + script, 1, f"{{{prefix}}}", *arguments


def set_clock(clock: SteadyClock, answer: tuple[int, int], asked_at: float) -> None:
    """Set a clock by what the server answered to `TIME`, which was asked for at this steady time."""
    clock.lead = int(answer[0]) + int(answer[1]) / 1e6 - (asked_at + steady_seconds()) / 2


def shared_secret(url: str, prefix: str, seal: Seal | NoSeal, name: str) -> bytes:
    """The secret of that name, made where there is none. Blocks, as `handshake` does.

    Raises:
        UsageError: The server cannot be reached, or what it holds was changed.
    """
    new_secret = seal.seal(secrets.token_bytes(32), f"secret/{name}")
    with _connected(url) as client:
        _, stored_secret = _ask(client, prefix, lua_scripts.AGREE, f"secret/{name}", new_secret, 1)
    return seal.open(stored_secret, f"secret/{name}")


# Any: an asyncio client; its connections have no public name.
def sockets_of(client: Any) -> list[int]:
    """The descriptors of all connections that a client has."""
    pool = client.connection_pool
    writers = [connection._writer for connection in (*pool._available_connections, *pool._in_use_connections)]
    sockets = [writer.get_extra_info("socket") for writer in writers if writer is not None]
    return [sock.fileno() for sock in sockets if sock is not None]


def server_failure(error: Exception) -> LedgerFailed:
    """What a caller is told when a script was not run, or may not have been."""
    failure = LedgerFailed(f"the ledger cannot be used: {_reason(error)}; check the server")
    failure.__cause__ = error
    return failure


def _reason(error: Exception) -> str:
    match error:
        case AuthenticationError():
            return "the server refuses the user or the password"
        case BusyLoadingError():
            return "the server is starting"
        case ConnectionLost():
            return "the server cannot be reached"
        case NoAnswer():
            return "the server does not answer"
        case _ if "maxmemory" in str(error):
            return "the server is full"
        case _:
            return f"the server says {str(error)[:200]!r}"


def _seal(client: Redis, where: str, prefix: str, key: bytes | str | None, facts: dict[str, str]) -> Seal | NoSeal:
    if key is None:
        if facts["key_id"]:
            raise UsageError(f"ledger {where!r} is sealed; give its key")
        return NoSeal()
    salt = bytes.fromhex(facts["salt"]) if facts["salt"] else secrets.token_bytes(SALT_BYTES)
    seal = seal_with(key, salt)
    facts = _facts(client, prefix, seal.key_id, salt.hex())
    if not facts["key_id"]:
        raise UsageError(f"ledger {where!r} has records that are not sealed; name another database to use a key")
    if facts["salt"] != salt.hex():
        # Another process was first, with a salt of its own.
        seal = seal_with(key, bytes.fromhex(facts["salt"]))
    if facts["key_id"] != seal.key_id:
        raise UsageError(
            f"wrong key for ledger {where!r}: it was sealed with key {facts['key_id']}, this is {seal.key_id}"
        )
    return seal


def _facts(client: Redis, prefix: str, key_id: str = "", salt: str = "") -> dict[str, str]:
    answer = _ask(client, prefix, lua_scripts.OPEN, FORMAT, key_id, salt)
    return {name: (value or b"").decode() for name, value in zip(("format", "key_id", "salt"), answer, strict=True)}


def _migrate(client: Redis, where: str, prefix: str) -> None:
    cursor = b"0"
    while True:
        cursor = _ask(client, prefix, lua_scripts.MIGRATE, cursor, _MIGRATED_AT_ONCE)
        if cursor is None:
            raise UsageError(
                f"ledger {where!r} has an index from before format 1, which is not read; "
                f"delete its keys, '{{{prefix}}}:*', to begin a new one, or name another database"
            )
        if cursor == b"0":
            break
    _log.warning("ledger %r was migrated to format %d", where, FORMAT)


def _warn(client: Redis, where: str) -> None:
    # Any: the client types its answers for both of its kinds at once.
    facts: Any = client.info()
    if not facts.get("aof_enabled"):
        _log.warning("ledger %r does not survive a restart of its server; set 'appendonly yes' there", where)
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        _log.warning("ledger %r may lose records when its server is full: its maxmemory-policy is %r", where, policy)


def redact_url(url: str) -> str:
    """The address without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
