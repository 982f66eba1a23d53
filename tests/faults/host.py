"""A process that runs one program with the library: `python -m tests.faults.host start|resume LEDGER TOOLS PROGRAM`.

The execution has an id that follows from the program, so that another process can resume it. Prints its outcome.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from pathlib import Path

from toolfold import Outcome, Runtime
from toolfold.errors import Fenced
from toolfold.interfaces.cli.load_tools import load_tools
from toolfold.ledger.sqlite.store import SqliteLedger


async def main(what: str, ledger_path: str, tools: str, program: str) -> None:
    text = Path(program).read_text("utf-8")
    execution_id = hashlib.sha256(text.encode()).hexdigest()[:16]
    ledger = SqliteLedger(ledger_path)
    try:
        async with Runtime(tools=load_tools([tools]), ledger=ledger) as runtime:
            if what == "start":
                step = await runtime.start(text, durable=True, execution_id=execution_id)
            else:
                step = await runtime.resume(execution_id)
    except Fenced as error:
        print(json.dumps({"fenced": str(error)}))
        return
    finally:
        await ledger.close()
    assert isinstance(step, Outcome)
    fields = ("execution_id", "status", "stdout", "stderr")
    print(json.dumps({field: getattr(step, field) for field in fields} | {"problem": str(step.problem or "")}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
