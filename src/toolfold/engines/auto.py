"""The engine by its name: what a runtime is given when it is given no engine."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from toolfold.engines.base import (
    MOST_KEPT_BYTES,
    MOST_KEPT_GUESTS,
    Engine,
    Forewarned,
    Guests,
    Stocked,
    importable_modules,
    snapshot_version,
)
from toolfold.errors import EngineUnavailable, UsageError
from toolfold.models import LibrarySet, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from toolfold.engines.base import Order, Run
    from toolfold.models import ToolSpec

NAMES = ("auto", "process", "monty")


def engine_named(
    name: str, *, isolation: str = "namespace", limits: Limits | None = None, warm: int = 2,
    accept_no_isolation: bool = False, host_libraries: bool = False, max_kept_guests: int = MOST_KEPT_GUESTS,
    max_kept_bytes: int = MOST_KEPT_BYTES,
) -> Engine:  # fmt: skip
    """An engine that is not open yet."""
    if name not in NAMES:
        raise UsageError(f"no engine {name!r}; there are {', '.join(NAMES)}")
    if name == "monty":
        return _monty()
    process = _process(
        isolation=isolation, limits=limits, warm=warm, accept_no_isolation=accept_no_isolation,
        host_libraries=host_libraries, max_kept_guests=max_kept_guests, max_kept_bytes=max_kept_bytes,
    )  # fmt: skip
    if name == "process" or isolation != "namespace":
        return process  # a tier that was asked for by name is not replaced by another engine
    return AutoEngine(process)


# Any: the options of `engine_named`, handed on.
def _process(**options: Any) -> Engine:
    # Here, not at the top: fork servers and seccomp tables exist on Linux only.
    from toolfold.engines.process import ProcessEngine  # noqa: PLC0415

    return ProcessEngine(**options)


def _monty() -> Engine:
    # Here, not at the top: an optional extra.
    from toolfold.engines.monty import MontyEngine  # noqa: PLC0415

    return MontyEngine()


class AutoEngine:
    """The process engine where it can run, else Monty if it is installed; says which in every outcome."""

    def __init__(self, first: Engine) -> None:
        self._chosen = first
        self._note: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the engine that runs the programs."""
        return self._chosen.name

    @property
    def isolation(self) -> str:
        """Of the engine that runs the programs."""
        return self._chosen.isolation

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it is not the process engine, if it is not, and what that engine has to say."""
        return self._note + self._chosen.notes

    @property
    def snapshot_version(self) -> str:
        """Of the engine that runs the programs; empty if that replays."""
        return snapshot_version(self._chosen)

    @property
    def modules(self) -> frozenset[str] | None:
        """What programs can import on the engine that runs them, where that can tell."""
        return importable_modules(self._chosen)

    async def __aenter__(self) -> AutoEngine:
        try:
            await self._chosen.__aenter__()
        except EngineUnavailable as error:
            if importlib.util.find_spec("pydantic_monty") is None:
                raise EngineUnavailable(f"{error}; or install toolfold[monty] to run a subset of Python") from None
            await self._fall_back(error)
        return self

    async def _fall_back(self, error: EngineUnavailable) -> None:
        self._chosen = _monty()
        await self._chosen.__aenter__()
        self._note = (f"ran on the monty engine, a subset of Python, because {error}",)
        sys.stderr.write(f"toolfold: {self._note[0]}\n")

    async def __aexit__(self, *exc: object) -> None:
        await self._chosen.__aexit__(*exc)

    def open(self, order: Order) -> AbstractAsyncContextManager[Run]:
        """Start a program on the engine that was chosen."""
        return self._chosen.open(order)

    def has_session(self, session: str) -> bool:
        """Whether the chosen engine keeps a guest for that session."""
        return self._chosen.has_session(session)

    def end_session(self, session: str) -> None:
        """End the guest that the session keeps."""
        self._chosen.end_session(session)

    async def preload(self, library_set: LibrarySet) -> None:
        """Have guests with these libraries wait, where the chosen engine has such."""
        if isinstance(self._chosen, Stocked):
            await self._chosen.preload(library_set)

    def expect(self, text: str, tools: Sequence[ToolSpec], limits: Limits) -> None:
        """Have the program that is being checked made ready, where the chosen engine can."""
        if isinstance(self._chosen, Forewarned):
            self._chosen.expect(text, tools, limits)

    def forget(self) -> None:
        """The program that was expected does not come."""
        if isinstance(self._chosen, Forewarned):
            self._chosen.forget()

    async def guests(self) -> Guests:
        """Of the chosen engine."""
        return await self._chosen.guests() if isinstance(self._chosen, Stocked) else Guests()
