"""`python -c` for each program: full Python, no isolation, no way back to a tool."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.runners.base import CannotDo, Runner

# The last line of a program is its value; a process can only print it.
TAIL = "\nimport json; print(json.dumps({last}))"


class Subprocess(Runner):
    name = "python -c"

    async def run(self, text: str) -> Any:
        if "await" in text:
            raise CannotDo("cannot call a tool")
        *lines, last = text.split("\n")
        if last != "pass":
            text = "\n".join(lines) + TAIL.format(last=last)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", text, stdout=-1, stderr=-1)
        output, errors = await process.communicate()
        if process.returncode:
            raise RuntimeError(errors.decode().strip().rsplit("\n", 1)[-1])
        return json.loads(output) if output else None

    @asynccontextmanager
    async def paused(self, text: str, count: int) -> AsyncIterator[list[int]]:
        # The nearest thing to a pause: it waits for its standard input.
        text = text.replace("await ask(question='go on?')", "print(flush=True)\ninput()")
        few = min(count, 8)  # each starts from nothing and shares only its files: more change no figure
        processes = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", text, stdin=-1, stdout=-1) for _ in range(few)
        ]
        try:
            for process in processes:
                assert process.stdout is not None
                await process.stdout.readline()
            yield [process.pid for process in processes]
        finally:
            for process in processes:
                process.kill()
                await process.wait()
