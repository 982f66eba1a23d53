"""Program checks before a run: in this process, or in a process of their own.

Large texts have a process of their own, with an end to its time and memory.
A megabyte of hostile text takes seconds of parsing, in which the interpreter lets no other thread run; and two threads
that parse at once share a count of depth in Python's own parser, so that one may be told what is true of the other.

Each tenant has a share of these processes, so that nobody waits behind another's costly texts: two at a time, and where
all are taken, whoever used them least is next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
import time
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toolfold.models import InstalledSet, Limits, Problem, Program, ToolSpec
from toolfold.program import Checker
from toolfold.program.parse import too_many_nodes

if TYPE_CHECKING:
    from toolfold.engines.base import Engine

LARGE_TEXT_CHARACTERS: Final = 32 * 1024
"""Parsing more than this could hold up every other execution."""
_AT_ONCE: Final = 8
_AT_ONCE_OF_TENANT: Final = 2
_COSTLY_BYTES: Final = 256 * 1024
"""A larger order takes the place of two."""
_FORGOTTEN_SECONDS: Final = 30.0
"""After which half of the time that a tenant's checks took counts no more."""
_NEGLIGIBLE_SECONDS: Final = 0.001
_CPU_SECONDS: Final = 30
_WALL_SECONDS: Final = 120.0
_MEMORY_BYTES: Final = 1024**3
_NICENESS: Final = 5
_NICENESS_OF_COSTLY: Final = 15
_CHILD: Final = "from toolfold.check_runner import main; main()"
_TOO_MUCH: Final = Problem(
    kind="too_large",
    message="the check of the program took too long or too much memory; write less, and read data from files",
)


class _Verdict(msgspec.Struct):
    program: Program | None = None
    problem: Problem | None = None


class Checks:
    """All that a program must pass before it runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._large = LargeChecks()

    def check_at_once(
        self, text: str, checker: Checker, limits: Limits, known_names: frozenset[str] | None
    ) -> Program | Problem | None:
        """The verdict on a text that needs nothing but the static rules, as most; `None` leaves it to `check`.

        A program waits for every step before its start, and one that is awaited costs more than one that is not.
        """
        if len(text) >= LARGE_TEXT_CHARACTERS:
            return None
        checked = checker.check(
            text, limits=limits, known_names=known_names, library_sets=self._library_sets, installed=self._modules
        )
        return None if checked.__class__ is Problem and checked.kind == "import" else checked

    async def check(
        self, text: str, specs: tuple[ToolSpec, ...], *, checker: Checker, limits: Limits,
        known_names: frozenset[str] | None, file_names: Callable[[], Iterable[str]], has_stdin: bool = False,
        tenant: str = "",
    ) -> Program | Problem:  # fmt: skip
        """The program, or why it will not run. Among the files that it is given there may be modules."""
        if len(text) >= LARGE_TEXT_CHARACTERS:
            return await self._large.check(
                text, specs, limits=limits, known_names=known_names, library_sets=self._library_sets,
                has_stdin=has_stdin, tenant=tenant,
            )  # fmt: skip
        check = partial(
            checker.check, text, limits=limits, known_names=known_names, has_stdin=has_stdin,
            library_sets=self._library_sets,
        )  # fmt: skip
        modules = self._modules
        checked = check(installed=modules)
        if not isinstance(checked, Problem) or checked.kind != "import" or modules is None:
            return checked
        # Looked for only now: most programs import no module of their own.
        own = {name.removesuffix(".py").partition("/")[0] for name in file_names() if name.endswith(".py")}
        return check(installed=modules | own) if own else checked

    @cached_property
    def _modules(self) -> frozenset[str] | None:
        return self._engine.capabilities.modules

    @cached_property
    def _library_sets(self) -> tuple[InstalledSet, ...] | None:
        return self._engine.capabilities.library_sets


class LargeChecks:
    """Checks of large texts, each in a process of its own, a few at a time."""

    def __init__(self) -> None:
        self._slots = _ProcessSlots()

    async def check(
        self, text: str, tools: Sequence[ToolSpec], *, limits: Limits | None, known_names: Container[str] | None,
        library_sets: Sequence[InstalledSet] | None = None, has_stdin: bool = False, tenant: str = "",
    ) -> Program | Problem:  # fmt: skip
        """As `Checker.check`; the same verdict for the same text, however busy the host is."""
        if limits is not None and len(text) > limits.program_bytes:
            return Checker().check(text, limits=limits)  # says so without looking at it
        answer = await self.ask(
            _verdict, text, list(tools), limits, known_names, library_sets, has_stdin, tenant=tenant
        )
        try:
            verdict = msgspec.json.decode(answer, type=_Verdict)
        except msgspec.MsgspecError:
            return _TOO_MUCH
        return verdict.program or verdict.problem or _TOO_MUCH

    # Any: whatever the function takes and gives.
    async def ask(self, function: Callable[..., Any], *arguments: Any, tenant: str = "") -> bytes:
        """Result of a module's function as JSON; empty if it took too much time or memory."""
        # Our own data for our own code: what comes back, after the parser saw a stranger's text, is JSON.
        order = pickle.dumps((function, arguments))
        async with self._slots.of(tenant, _AT_ONCE_OF_TENANT if len(order) > _COSTLY_BYTES else 1):
            return await _ask(order)


@dataclass(slots=True)
class _Account:
    """Check processes of one tenant: how many it has now, and how long it used them recently."""

    used_weight: int = 0
    seconds: float = 0.0
    counted_at: float = field(default_factory=time.monotonic)

    def spend(self, seconds: float) -> None:
        now = time.monotonic()
        self.seconds = self.seconds * 0.5 ** ((now - self.counted_at) / _FORGOTTEN_SECONDS) + seconds
        self.counted_at = now


class _ProcessSlots:
    """Slots for check processes; waiting checks are admitted by how much their tenants used recently."""

    def __init__(self) -> None:
        self._free = _AT_ONCE
        self._accounts: dict[str, _Account] = {}
        self._waiting: dict[asyncio.Future[None], tuple[str, int]] = {}

    @asynccontextmanager
    async def of(self, tenant: str, weight: int) -> AsyncIterator[None]:
        """Hold a slot, which weighs so much in the tenant's share."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = tenant, weight
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if self._waiting.pop(turn, None) is None:
                self._leave(tenant, weight, 0.0)
            raise
        began = time.monotonic()
        try:
            yield
        finally:
            self._leave(tenant, weight, time.monotonic() - began)

    def _leave(self, tenant: str, weight: int, seconds: float) -> None:
        account = self._accounts[tenant]
        account.used_weight -= weight
        account.spend(seconds)
        self._free += 1
        self._let_in()

    def _let_in(self) -> None:
        for account in self._accounts.values():
            account.spend(0.0)
        while self._free:
            ready = [
                (self._account(tenant).seconds, turn)
                for turn, (tenant, weight) in self._waiting.items()
                if not turn.cancelled() and self._account(tenant).used_weight + weight <= _AT_ONCE_OF_TENANT
            ]
            if not ready:
                break
            _, turn = min(ready, key=itemgetter(0))
            tenant, weight = self._waiting.pop(turn)
            self._account(tenant).used_weight += weight
            self._free -= 1
            turn.set_result(None)
        waiting = {tenant for tenant, _ in self._waiting.values()}
        for tenant, account in tuple(self._accounts.items()):
            if not account.used_weight and account.seconds < _NEGLIGIBLE_SECONDS and tenant not in waiting:
                del self._accounts[tenant]

    def _account(self, tenant: str) -> _Account:
        return self._accounts.setdefault(tenant, _Account())


async def _ask(order: bytes) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-s", "-P", "-c", _CHILD,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LC_ALL": "C.UTF-8",
            **{name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},  # Windows starts none without
        },
        process_group=0,  # not a session: Linux would give each an equal part of the processors, however nice
    )  # fmt: skip
    try:
        async with asyncio.timeout(_WALL_SECONDS):
            answer, _ = await process.communicate(order)
    except TimeoutError:
        answer = b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return answer


def main() -> None:
    """Entry point of the check process: one job from stdin, one answer to stdout."""
    order = sys.stdin.buffer.read()
    if sys.platform != "win32":  # has a limit of time alone, the parent's
        import resource  # noqa: PLC0415  # not on Windows

        os.nice(_NICENESS_OF_COSTLY if len(order) > _COSTLY_BYTES else _NICENESS)
        for limit, value in ((resource.RLIMIT_CPU, _CPU_SECONDS), (resource.RLIMIT_AS, _MEMORY_BYTES)):
            # macOS refuses some limits on memory.
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(limit, (value, value))
    # S301: from the host, which made it.
    function, arguments = pickle.loads(order)  # noqa: S301
    sys.stdout.buffer.write(msgspec.json.encode(function(*arguments)))


def _verdict(
    text: str, tools: Sequence[ToolSpec], limits: Limits | None, known_names: Container[str] | None,
    library_sets: Sequence[InstalledSet] | None, has_stdin: bool,
) -> _Verdict:  # fmt: skip
    if (problem := too_many_nodes(text)) is not None:
        return _Verdict(problem=problem)
    result = Checker(tools).check(
        text, limits=limits, known_names=known_names, library_sets=library_sets, has_stdin=has_stdin
    )
    return _Verdict(program=result) if isinstance(result, Program) else _Verdict(problem=result)
