"""A host in a process of its own, which is really killed.

    python -m tests.killed LEDGER SAVES ENGINE

Each line it reads is a request, each line it writes the answer: what is asked for, or the end.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from toolfold import Outcome, Paused, Reply, Runtime, ToolSpec, tool
from toolfold.ledger.sqlite.store import SqliteLedger

ASK = ToolSpec(
    name="ask",
    python_name="ask",
    input_schema={"type": "object", "properties": {"q": {}}, "required": ["q"]},
    source="caller",
)
_ROOT = Path(__file__).parent.parent
_ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])}


class Host:
    """One host process; each request gets one answer, and a kill comes whenever the test says."""

    def __init__(self, folder: Path, engine: str = "auto") -> None:
        files = [str(folder / "ledger.sqlite"), str(folder / "saves")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *files, engine],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT,
        )  # fmt: skip

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def tell(self, request: dict[str, Any]) -> None:
        """A request that this host does not survive."""
        self._process.communicate(json.dumps(request) + "\n")
        assert self._process.returncode == -signal.SIGKILL

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()


async def main(ledger_path: str, saves_path: str, engine: str) -> None:
    ledger = SqliteLedger(ledger_path)
    with Path(saves_path).open("a") as saves:

        @tool
        async def save(key: int) -> int:
            """Has an effect, which is a line in a file."""
            saves.write(f"{key}\n")
            saves.flush()
            return key * 10

        @tool
        async def die(key: int) -> int:
            """Has the same effect, and takes its host along before it can reply."""
            saves.write(f"{key}\n")
            saves.flush()
            if request.get("dies", True):
                os.kill(os.getpid(), signal.SIGKILL)
            return key * 10

        request: dict[str, Any] = {}
        async with Runtime(tools=[save, die], engine=engine, ledger=ledger) as runtime:
            while line := await asyncio.to_thread(sys.stdin.readline):
                request = json.loads(line)
                answer = await _served(runtime, ledger, request)
                print(json.dumps(answer), flush=True)


async def _served(runtime: Runtime, ledger: SqliteLedger, request: dict[str, Any]) -> dict[str, Any]:
    if "run" in request:
        earlier = [line.execution_id for line in await ledger.list(limit=1)] if request.get("again") else [""]
        ended = await runtime.run(request["run"], rerun_of=earlier[0], repeat=request.get("repeat"))
        return {"stdout": ended.stdout, "stderr": ended.stderr, "hints": ended.hints}
    step: Paused | Outcome
    if "text" in request:
        step = await runtime.start(request["text"], tools=[ASK])
    else:
        replies = [Reply(call_id=call_id, value=["re", q]) for call_id, q in request["calls"]]
        step = await runtime.resume(request["id"], replies)
    if not isinstance(step, Paused):
        return {"id": step.execution_id, "stdout": step.stdout, "stderr": step.stderr}
    return {
        "id": step.execution_id,
        "calls": [[call.id, call.arguments["q"]] for call in step.calls],
        "snapshot_bytes": len(await ledger.snapshot(step.execution_id) or b""),
    }


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
