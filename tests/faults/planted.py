"""Bugs that are planted into the real product, in the process of a server or a command, for the checker to find."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from toolfold.execution.execution import ExecutionRecord
from toolfold.execution.recorded_history import ReplayHistory, Rerun
from toolfold.ledger.base import ExecutionHistory, ReplyEntry, TapeEntry
from toolfold.ledger.redis import lua_scripts
from toolfold.ledger.redis.leases import Leases
from toolfold.ledger.sqlite import writer
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.ledger.sqlite.write_ahead_log import WriteAheadLog
from toolfold.sessions.sessions import Sessions

_LATE_SECONDS: Final = 30.0
"""Until a commit that nobody waits for: longer than a test takes to kill the process."""


def plant(bug: str) -> None:
    """Change the product in this process."""
    BUGS[bug]()


def _in_replays(change: Callable[[list[Any]], list[Any]]) -> None:
    """Let replays read another history than the one that was written."""
    usual = ReplayHistory.__init__

    def init(self: ReplayHistory, history: ExecutionHistory, *arguments: Any, **options: Any) -> None:
        usual(self, replace(history, entries=tuple(change([*history.entries]))), *arguments, **options)

    ReplayHistory.__init__ = init


def _is_reply(entry: Any, tool: str) -> bool:
    return isinstance(entry, ReplyEntry) and entry.record.name == tool


def _with_value(entry: ReplyEntry, value: Any) -> ReplyEntry:
    reply = msgspec.structs.replace(entry.reply, value=value)
    return ReplyEntry(reply, entry.record)


def _replace_client_replies() -> None:
    def change(entries: list[Any]) -> list[Any]:
        values = [entry.reply.value for entry in entries if _is_reply(entry, "get_weather")]
        return [_with_value(entry, values[-1]) if _is_reply(entry, "get_weather") else entry for entry in entries]

    _in_replays(change)


def _drop_last_client_reply() -> None:
    def change(entries: list[Any]) -> list[Any]:
        last = max((at for at, entry in enumerate(entries) if _is_reply(entry, "get_weather")), default=len(entries))
        return entries[:last] + entries[last + 1 :]

    _in_replays(change)


def _lose_host_replies() -> None:
    _in_replays(
        lambda entries: [_with_value(entry, None) if _is_reply(entry, "effect") else entry for entry in entries]
    )


def _doubt_host_replies() -> None:
    def doubt(entry: ReplyEntry) -> ReplyEntry:
        text = "'effect' was called before the host stopped; whether it ran is not known"
        return ReplyEntry(msgspec.structs.replace(entry.reply, value=None, error=text), entry.record)

    _in_replays(lambda entries: [doubt(entry) if _is_reply(entry, "effect") else entry for entry in entries])


def _forget_clock() -> None:
    _in_replays(
        lambda entries: [
            msgspec.structs.replace(entry, clocks=()) if isinstance(entry, TapeEntry) else entry for entry in entries
        ]
    )


def _rerun_wrongly() -> None:
    usual = Rerun.reply_to
    earlier: list[Any] = []

    def reply_to(self: Rerun, call: Any, *, is_safe: bool) -> Any:
        reply = usual(self, call, is_safe=is_safe)
        if reply is None or reply.error is not None:
            return reply
        earlier.append(reply.value)
        return msgspec.structs.replace(reply, value=earlier[0])

    Rerun.reply_to = reply_to


def _write_nothing_ahead() -> None:
    def write(_: WriteAheadLog, gathered: Any) -> bool:
        gathered.mark_written()
        return True

    WriteAheadLog.write = write
    writer._LINGER_SECONDS = _LATE_SECONDS


def _acknowledge_early() -> None:
    usual = ExecutionRecord.park
    tasks = set()

    async def late(self: ExecutionRecord, snapshot: Any) -> None:
        await asyncio.sleep(_LATE_SECONDS)
        await usual(self, snapshot)

    async def park(self: ExecutionRecord, snapshot: Any = None) -> None:
        tasks.add(asyncio.ensure_future(late(self, snapshot)))

    ExecutionRecord.park = park
    writer._LINGER_SECONDS = _LATE_SECONDS


def _forget_keys() -> None:
    # Imported here: commands other than `serve` start without it.
    from toolfold.interfaces.http.executions import ApiExecutions

    async def start(self: ApiExecutions, start: Any, _: Any, __: Any) -> Any:
        return await self._start(start)

    ApiExecutions.start = start


def _mark_no_end() -> None:
    async def finish(self: SqliteLedger, execution_id: str, *_: Any, **__: Any) -> None:
        await self.flush(execution_id)

    SqliteLedger.finish = finish


def _ignore_fence() -> None:
    usual = "if there[1] ~= epoch then return 'fenced' end"
    follows = "if there[3] ~= follows then return 'fenced' end"
    assert usual in lua_scripts.WRITE
    assert follows in lua_scripts.WRITE
    lua_scripts.WRITE = lua_scripts.WRITE.replace(usual, "").replace(follows, "")

    async def lost_none(*_: Any, **__: Any) -> list[str]:
        return []

    async def confirm(*_: Any) -> None:
        pass

    Leases.beat = lost_none
    Leases.confirm = confirm


def _write_twice() -> None:
    usual = "if body ~= '' then redis.call('RPUSH', pieces, body) end"
    assert usual in lua_scripts.WRITE
    lua_scripts.WRITE = lua_scripts.WRITE.replace(usual, usual.replace("pieces, body", "pieces, body, body"))


def _wipe_files() -> None:
    def update(*_: Any) -> tuple[str, ...]:
        return ()

    Sessions.update = update


def _fail_plainly() -> None:
    from toolfold.interfaces.http.executions import Rounds

    usual, numbers = Rounds.continue_execution, itertools.count()

    async def go_on(self: Rounds, sent: Any) -> Any:
        if next(numbers) == 0:
            raise RuntimeError("planted")
        return await usual(self, sent)

    Rounds.continue_execution = go_on


def _answer_anew() -> None:
    from toolfold.interfaces.http import executions

    usual, numbers = executions.recorded_response, itertools.count()

    def ended_before(*arguments: Any) -> Any:
        answer = usual(*arguments)
        return replace(answer, body={**answer.body, "number": next(numbers)})

    executions.recorded_response = ended_before


BUGS: Final[dict[str, Callable[[], None]]] = {
    "client replies replaced by the last one": _replace_client_replies,
    "host replies lost on replay": _lose_host_replies,
    "clock not replayed": _forget_clock,
    "rerun with a wrong reply": _rerun_wrongly,
    "Redis fence ignored": _ignore_fence,
    "pause acknowledged before its commit": _acknowledge_early,
    "write-ahead file not written": _write_nothing_ahead,
    "last client reply dropped on resume": _drop_last_client_reply,
    "host replies not known on replay": _doubt_host_replies,
    "idempotency key forgotten": _forget_keys,
    "end never marked": _mark_no_end,
    "Redis entries written twice": _write_twice,
    "files of programs wiped": _wipe_files,
    "failure without 503": _fail_plainly,
    "second answer to the same request": _answer_anew,
}
