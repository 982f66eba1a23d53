"""The engine `auto`: the process engine where it can run, else Monty."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, Self

from toolfold.engines.base import Engine, EngineSettings, EngineWrapper
from toolfold.engines.registry import engine_named
from toolfold.errors import EngineUnavailable, install_extra


class AutoEngine(EngineWrapper):
    """The process engine where it can run, else Monty if it is installed; says which in every outcome."""

    def __init__(self, first: Engine) -> None:
        super().__init__(first)
        self._note: tuple[str, ...] = ()

    @classmethod
    # Any: each option of the process engine has its own type.
    def from_settings(cls, settings: EngineSettings, /, *, isolation: str = "namespace", **options: Any) -> Engine:
        """An engine by the options of the process engine."""
        process = engine_named("process", options={"isolation": isolation, **options}, settings=settings)
        # A tier that was asked for by name is not replaced by another engine.
        return cls(process) if isolation == "namespace" else process

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it is not the process engine, if it is not, and what that engine has to say."""
        return self._note + self.inner.notes

    async def __aenter__(self) -> Self:
        try:
            await self.inner.__aenter__()
        except EngineUnavailable as error:
            if importlib.util.find_spec("pydantic_monty") is None:
                raise EngineUnavailable(f"{error}; or, for a subset of Python, {install_extra('monty')}") from None
            await self._fall_back(error)
        return self

    async def _fall_back(self, error: EngineUnavailable) -> None:
        self.inner = engine_named("monty")
        await self.inner.__aenter__()
        self._note = (f"ran on the monty engine, a subset of Python, because {error}",)
        sys.stderr.write(f"toolfold: {self._note[0]}\n")
