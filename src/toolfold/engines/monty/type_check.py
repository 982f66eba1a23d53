"""Type checker service on Monty: one worker that checks every program and runs none.

A worker is slow to check its first text and quick from the second on, so it is kept; nothing that it is
given runs, so nothing of one program can reach the next.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Final

import msgspec

from toolfold.models import Problem, ToolSpec
from toolfold.program.type_check import Diagnostic, Question, question

_LONGEST_SECONDS: Final = 2.0
_CHECKS_PER_WORKER: Final = 1000
"""What it has learnt of texts stays in its memory."""


class _Location(msgspec.Struct):
    row: int
    column: int


class _Finding(msgspec.Struct):
    code: str | None
    message: str
    location: _Location


class TypeChecker:
    """Asks Monty's type checker. Where that has no answer there is no problem: it is advice, as every check."""

    def __init__(self, monty: ModuleType) -> None:
        self._monty = monty
        self._lock = threading.Lock()
        # Any: Monty's classes are known only once the optional package is there.
        self._pool: Any = None
        self._session: Any = None
        self._checks = 0

    async def problem(
        self, text: str, tools: Sequence[ToolSpec], *, known_names: Collection[str] = ()
    ) -> Problem | None:
        """What is certainly wrong with the types in a program's tool calls."""
        type_question = question(text, tools, known_names=known_names)
        return None if type_question is None else await asyncio.to_thread(self._answer, type_question)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._lock:
            self._let_go()
            pool, self._pool = self._pool, None
            if pool is not None:
                pool.__exit__(None, None, None)

    def _answer(self, type_question: Question) -> Problem | None:
        with self._lock:
            try:
                diagnostics = self._ask(type_question.text)
            except (self._monty.MontyError, OSError, RuntimeError, TimeoutError):
                # It gave up, or died over this text: the next question gets another worker.
                self._let_go()
                return None
        return type_question.problem(diagnostics)

    def _ask(self, text: str) -> list[Diagnostic]:
        session = self._open()
        try:
            step = session.feed_start(text)
            while isinstance(step, self._monty.FunctionSnapshot) and step.function_name == "import_stubs":
                step = step.resume_auto()
        except self._monty.MontyTypingError as error:
            findings = _findings_decoder.decode(error.display())
            return [
                Diagnostic(finding.code or "", finding.message, finding.location.row, finding.location.column)
                for finding in findings
            ]
        self._let_go()  # its first line is wrong: a text that passes was not understood
        return []

    def _open(self) -> Any:
        if self._pool is None:
            pool = self._monty.Monty(
                min_processes=0, max_processes=2, checkout_timeout=10.0, request_timeout=_LONGEST_SECONDS,
                max_checkouts_per_worker=1,
            )  # fmt: skip
            self._pool = pool.__enter__()
        self._checks += 1
        if self._checks > _CHECKS_PER_WORKER:
            self._let_go()
        if self._session is None:
            limits = {"max_feed_duration_secs": _LONGEST_SECONDS}
            session = self._pool.checkout(type_check=True, type_check_format="json", limits=limits)
            self._session = session.__enter__()
        return self._session

    def _let_go(self) -> None:
        session, self._session, self._checks = self._session, None, 0
        if session is not None:
            with suppress(Exception):
                session.__exit__(None, None, None)


_findings_decoder: Final = msgspec.json.Decoder(list[_Finding])
