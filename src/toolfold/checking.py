"""The check of a program before it runs, wherever it is done: here, in a process of its own, or by a type checker.

Large texts have a process of their own, with an end to its time and memory.
A megabyte of hostile text takes seconds of parsing, in which the interpreter lets no other thread run; and two threads
that parse at once share a count of depth in Python's own parser, so that one may be told what is true of the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toolfold.models import InstalledSet, Limits, Problem, Program, ToolSpec
from toolfold.program import Checker

if TYPE_CHECKING:
    from toolfold.engines.base import Engine
    from toolfold.engines.monty.type_check import TypeChecker

LARGE_TEXT_CHARACTERS: Final = 32 * 1024
"""Parsing more than this could hold up every other execution."""
_AT_ONCE: Final = 2
_CPU_SECONDS: Final = 30
_WALL_SECONDS: Final = 120.0
_MEMORY_BYTES: Final = 3 * 1024**3
_NICENESS: Final = 5
_CHILD: Final = "from toolfold.checking import main; main()"
_TOO_MUCH: Final = Problem(
    kind="too_large",
    message="the check of the program took too long or too much memory; write less, and read data from files",
)


class _Verdict(msgspec.Struct):
    program: Program | None = None
    problem: Problem | None = None


class Checks:
    """All that a program must pass before it runs on one engine.

    Args:
        with_types: Have Monty's type checker look at each program; `None` leaves it to the engine.
    """

    def __init__(self, engine: Engine, *, with_types: bool | None) -> None:
        self._engine = engine
        self._with_types = with_types
        self._types: TypeChecker | None = None
        self._large = LargeChecks()

    def check_at_once(
        self, text: str, checker: Checker, limits: Limits, known_names: frozenset[str]
    ) -> Program | Problem | None:
        """The verdict on a text that needs nothing but the static rules, as most; `None` leaves it to `check`.

        A program waits for every step before its start, and one that is awaited costs more than one that is not.
        """
        if self._is_typed or len(text) >= LARGE_TEXT_CHARACTERS:
            return None
        checked = checker.check(
            text, limits=limits, known_names=known_names, library_sets=self._library_sets, installed=self._modules
        )
        return None if checked.__class__ is Problem and checked.kind == "import" else checked

    async def check(
        self, text: str, specs: tuple[ToolSpec, ...], *, checker: Checker, limits: Limits,
        known_names: frozenset[str], file_names: Callable[[], Iterable[str]], has_stdin: bool = False,
    ) -> Program | Problem:  # fmt: skip
        """The program, or why it will not run. Among the files that it is given there may be modules."""
        if len(text) >= LARGE_TEXT_CHARACTERS:
            checked = await self._large.check(
                text, specs, limits=limits, known_names=known_names, library_sets=self._library_sets,
                has_stdin=has_stdin,
            )  # fmt: skip
        else:
            check = partial(checker.check, text, limits=limits, known_names=known_names, has_stdin=has_stdin)
            checked = self._check_here(partial(check, library_sets=self._library_sets), file_names)
        if isinstance(checked, Problem) or not self._is_typed:
            return checked
        return await self._type_problem(checked, specs, known_names) or checked

    async def close(self) -> None:
        """End the type checker, if there is one."""
        if self._types is not None:
            await self._types.close()

    def _check_here(
        self, check: Callable[..., Program | Problem], file_names: Callable[[], Iterable[str]]
    ) -> Program | Problem:
        modules = self._modules
        checked = check(installed=modules)
        if not isinstance(checked, Problem) or checked.kind != "import" or modules is None:
            return checked
        # Looked for only now: most programs import no module of their own.
        own = {name.removesuffix(".py").partition("/")[0] for name in file_names() if name.endswith(".py")}
        if not own:
            return checked
        return check(installed=modules | own)

    @cached_property
    def _is_typed(self) -> bool:
        return self._engine.capabilities.checks_types if self._with_types is None else self._with_types

    @cached_property
    def _modules(self) -> frozenset[str] | None:
        return self._engine.capabilities.modules

    @cached_property
    def _library_sets(self) -> tuple[InstalledSet, ...] | None:
        return self._engine.capabilities.library_sets

    async def _type_problem(
        self, program: Program, specs: Sequence[ToolSpec], known_names: frozenset[str]
    ) -> Problem | None:
        if self._types is None:
            from toolfold.engines.monty import type_checker  # noqa: PLC0415  # start-up time

            self._types = type_checker()
        return await self._types.problem(program.text, specs, known_names=known_names)


class LargeChecks:
    """A few processes at a time, each for one text."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def check(
        self, text: str, tools: Sequence[ToolSpec], *, limits: Limits | None, known_names: Container[str],
        library_sets: Sequence[InstalledSet] | None = None, has_stdin: bool = False,
    ) -> Program | Problem:  # fmt: skip
        """As `Checker.check`; the same verdict for the same text, however busy the host is."""
        if limits is not None and len(text) > limits.program_bytes:
            return Checker().check(text, limits=limits)  # says so without looking at it
        answer = await self.ask(_verdict, text, list(tools), limits, known_names, library_sets, has_stdin)
        try:
            verdict = msgspec.json.decode(answer, type=_Verdict)
        except msgspec.MsgspecError:
            return _TOO_MUCH
        return verdict.program or verdict.problem or _TOO_MUCH

    # Any: whatever the function takes and gives.
    async def ask(self, function: Callable[..., Any], *arguments: Any) -> bytes:
        """What a function of a module gives, as JSON; nothing where it took too long or too much."""
        # Our own data for our own code: what comes back, after the parser saw a stranger's text, is JSON.
        order = pickle.dumps((function, arguments))
        async with self._places:
            return await _ask(order)


async def _ask(order: bytes) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-s", "-P", "-c", _CHILD,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LC_ALL": "C.UTF-8"},
        start_new_session=True,
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
    """The process: one order from stdin, one answer to stdout."""
    import resource  # noqa: PLC0415  # on Unix only, as is whatever needs this process

    os.nice(_NICENESS)
    for limit, value in ((resource.RLIMIT_CPU, _CPU_SECONDS), (resource.RLIMIT_AS, _MEMORY_BYTES)):
        resource.setrlimit(limit, (value, value))
    # S301: from the host, which made it.
    function, arguments = pickle.loads(sys.stdin.buffer.read())  # noqa: S301
    sys.stdout.buffer.write(msgspec.json.encode(function(*arguments)))


def _verdict(
    text: str, tools: Sequence[ToolSpec], limits: Limits | None, known_names: Container[str],
    library_sets: Sequence[InstalledSet] | None, has_stdin: bool,
) -> _Verdict:  # fmt: skip
    found = Checker(tools).check(
        text, limits=limits, known_names=known_names, library_sets=library_sets, has_stdin=has_stdin
    )
    return _Verdict(program=found) if isinstance(found, Program) else _Verdict(problem=found)
