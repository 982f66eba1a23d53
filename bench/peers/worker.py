"""A peer's own process: `python -m bench.peers.worker PEER TOOLS`. One request a line, one answer a line.

    {"do": "time", "case": "empty", "times": 3}  -> {"seconds": 0.0004}
    {"do": "rate", "case": "rate"}  -> {"rate": 512.0}
    {"do": "run", "text": "1 + 1"}  -> {"value": 2, "stdout": ""}

and {"error": "..."} where the peer could not. It measures itself, so that asking costs nothing.
"""

import asyncio
import importlib
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from bench.cases import CASES, Case, RateCase
from bench.peers.adapters.base import Adapter, Function
from bench.peers.roster import PEERS

PAUSE_SECONDS = 0.012
"""Before each run, for everyone: pools fill up again, the last one's exits are over."""
PREFIXES = re.compile(r"^.* due to: |^(Code execution failed: )+|^Error calling tool 'execute': ")
"""What peers put in front of every error."""
SPEED_TOOLS = "bench.tools"
BY_NAME = {case.name: case for case in CASES}


async def main(peer: str, tools: str) -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a peer prints itself is not an answer
    folder = tempfile.mkdtemp()  # what programs write goes there, where a peer lets them
    os.chdir(folder)
    module, _, name = PEERS[peer].adapter.partition(":")
    requests = await _lines()
    try:
        kind: type[Adapter] = getattr(importlib.import_module(module), name)
        adapter = await kind(_tools(tools), with_files=tools != SPEED_TOOLS).__aenter__()
    # Whatever a peer raises is what it has to say.
    except Exception as error:  # noqa: BLE001
        print(json.dumps({"error": words(error)}), file=answers)
        return
    print(json.dumps({"ready": True, "python": sys.version.split()[0]}), file=answers)
    try:
        while line := await requests.readline():
            answer = await _answer(adapter, json.loads(line))
            print(json.dumps(answer, default=repr), file=answers)
    finally:
        await adapter.__aexit__(None, None, None)
        shutil.rmtree(folder, ignore_errors=True)


async def _lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def _tools(name: str) -> Sequence[Function]:
    return importlib.import_module(name).TOOLS


async def _answer(adapter: Adapter, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        match asked["do"]:
            case "time":
                return {"seconds": await _time(adapter, BY_NAME[asked["case"]], asked["times"])}
            case "rate":
                return {"rate": await _rate(adapter, BY_NAME[asked["case"]])}
            case "run":
                ran = await adapter.run(adapter.spell(asked["text"]))
                return {"value": ran.value, "stdout": ran.stdout}
            case other:
                raise ValueError(f"no request {other!r}")
    # The same: its own words go into the table.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return {"error": words(error)}


async def _time(adapter: Adapter, case: Case, times: int) -> float:
    text = adapter.spell(case.text)
    seconds = []
    for _ in range(1 + times):
        await asyncio.sleep(PAUSE_SECONDS)
        began = time.perf_counter()
        ran = await adapter.run(text)
        seconds.append((time.perf_counter() - began) / case.per)
        if ran.value != case.expects:
            raise ValueError(f"wrong value {ran.value!r:.60}")
    return statistics.median(seconds[1:])  # the first wakes up a process that slept while others were measured


async def _rate(adapter: Adapter, case: Case) -> float:
    assert isinstance(case, RateCase)
    text = adapter.spell(case.text)

    async def keep_running() -> int:
        count = 0
        while time.perf_counter() < deadline:
            await adapter.run(text)
            count += 1
        return count

    began = time.perf_counter()
    deadline = began + case.seconds
    counts = await asyncio.gather(*(keep_running() for _ in range(case.in_flight)))
    return sum(counts) / (time.perf_counter() - began)


def words(error: BaseException) -> str:
    """An error in its own words: what a type checker says first, else the last line, as in a traceback."""
    text = str(error).strip() or type(error).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if line.startswith("error[")), lines[-1])
    return PREFIXES.sub("", line)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
