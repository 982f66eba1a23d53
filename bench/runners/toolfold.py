"""This engine: with its warm pool, without it, and with the data libraries loaded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import toolfold
from bench.processes import descendants
from bench.runners.base import Runner
from bench.tools import TOOLS
from toolfold.engines.process import ProcessEngine
from toolfold.engines.wasm import WasmEngine
from toolfold.engines.wasm.worker_pool import SLOTS

ASK = toolfold.ToolSpec(
    name="ask",
    python_name="ask",
    input_schema={"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
    source="caller",
)


class Toolfold(Runner):
    name = "toolfold"
    warm = 2
    """As the default, like all else: tier namespace, all limits."""

    async def __aenter__(self) -> Self:
        self._runtime = toolfold.Runtime(TOOLS, engine=ProcessEngine(warm=self.warm))
        await self._runtime.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runtime.__aexit__(*exc)

    async def run(self, text: str) -> Any:
        return _value_of(await self._runtime.run(text))

    async def run_bash(self, text: str) -> None:
        _value_of(await self._runtime.run(text, language="bash"))

    @asynccontextmanager
    async def paused(self, text: str, count: int) -> AsyncIterator[list[int]]:
        # No pool here: a guest that waits for a program would be counted as one that runs it.
        async with toolfold.Runtime(engine=ProcessEngine(warm=0)) as runtime:
            before = descendants()
            for _ in range(count):
                step = await runtime.start(text, tools=[ASK])
                assert isinstance(step, toolfold.Paused), step
            now = descendants()
            zygotes = set(now.values())  # guests have no children
            yield [pid for pid in now if pid not in before and pid not in zygotes]


class ToolfoldWasm(Toolfold):
    """CPython in WebAssembly, where no jail can be built."""

    name = "toolfold, wasm"
    programs_per_process = SLOTS

    async def __aenter__(self) -> Self:
        self._runtime = toolfold.Runtime(TOOLS, engine=WasmEngine(warm=self.warm))
        await self._runtime.__aenter__()
        return self

    @asynccontextmanager
    async def paused(self, text: str, count: int) -> AsyncIterator[list[int]]:
        before = descendants()
        async with toolfold.Runtime(engine=WasmEngine(warm=0)) as runtime:
            for _ in range(count):
                step = await runtime.start(text, tools=[ASK])
                assert isinstance(step, toolfold.Paused), step
            # With pandas, the first worker has none of these programs: it has the other library set.
            yield sorted(descendants().keys() - before.keys())[-count // SLOTS :]


class ToolfoldCold(Toolfold):
    name = "toolfold, no pool"
    warm = 0


class ToolfoldData(Toolfold):
    """The same programs in guests that have numpy and pandas loaded."""

    name = "toolfold, data"

    async def run(self, text: str) -> Any:
        return await super().run(f"import pandas\n{text}")


def _value_of(outcome: toolfold.Outcome) -> Any:
    if outcome.status != "finished":
        raise RuntimeError(str(outcome.problem or outcome.status))
    return outcome.value
