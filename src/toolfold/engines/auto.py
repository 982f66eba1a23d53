"""The engine by its name: what a runtime is given when it is given no engine."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, Self

from toolfold.engines.base import (
    MOST_KEPT_BYTES,
    MOST_KEPT_GUESTS,
    Engine,
    EngineWrapper,
)
from toolfold.errors import EngineUnavailable, UsageError
from toolfold.models import Limits

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


class AutoEngine(EngineWrapper):
    """The process engine where it can run, else Monty if it is installed; says which in every outcome."""

    def __init__(self, first: Engine) -> None:
        super().__init__(first)
        self._note: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it is not the process engine, if it is not, and what that engine has to say."""
        return self._note + self.inner.notes

    async def __aenter__(self) -> Self:
        try:
            await self.inner.__aenter__()
        except EngineUnavailable as error:
            if importlib.util.find_spec("pydantic_monty") is None:
                raise EngineUnavailable(f"{error}; or install toolfold[monty] to run a subset of Python") from None
            await self._fall_back(error)
        return self

    async def _fall_back(self, error: EngineUnavailable) -> None:
        self.inner = _monty()
        await self.inner.__aenter__()
        self._note = (f"ran on the monty engine, a subset of Python, because {error}",)
        sys.stderr.write(f"toolfold: {self._note[0]}\n")
