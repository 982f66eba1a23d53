"""Ours: the library's `Runtime` with its defaults, which are the process engine, a warm pool and every limit."""

from typing import Self

import toolfold
from bench.peers.adapters.base import Adapter, Ran

# As for the peers; the others are those of a runtime that nobody has configured.
LIMITS = toolfold.Limits(wall_seconds=10.0)


class Toolfold(Adapter):
    engine, isolation = "process", "namespace"

    async def __aenter__(self) -> Self:
        self._runtime = toolfold.Runtime(tuple(self.tools.values()), engine=self.engine, limits=LIMITS)
        await self._runtime.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runtime.__aexit__(*exc)

    async def run(self, text: str) -> Ran:
        outcome = await self._runtime.run(text)
        if outcome.status != "finished":
            raise RuntimeError(outcome.problem.message if outcome.problem else outcome.status)
        assert outcome.isolation == self.isolation, outcome.isolation
        return Ran(outcome.value, outcome.stdout)


class ToolfoldWasm(Toolfold):
    """CPython in WebAssembly, for the same machines."""

    engine, isolation = "wasm", "wasm"


class ToolfoldMonty(Toolfold):
    """The portable engine, for machines that cannot isolate a process."""

    engine, isolation = "monty", "monty"
