"""Trace of the main paths: how many source files a program passes through, and how often the file changes.

    python design/walk.py                 a table of the four walks
    python design/walk.py --check         the same, and exit 1 if one is over its limit

A walk is traced with `sys.setprofile` in the thread of the event loop, for a program that calls one tool. Counted are
the files below `src/toolfold` in which a function is entered, and how often the file is another than that of the
function entered before. Module bodies that an import executes are not counted: they are no part of the path.
"""

import argparse
import asyncio
import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import toolfold

SOURCE: Final = Path(toolfold.__file__).parent
PROGRAM: Final = "print(await price(ticker='ACME'))"
TOOLS: Final = """\
import toolfold

@toolfold.tool(read_only=True)
async def price(ticker: str) -> float:
    '''The last price of one share.'''
    return 12.5
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Limit of one walk."""

    files: int
    changes: int | None = None


LIMITS: Final = {
    "toolfold run, whole command": Limit(files=90),
    "Runtime.run to the recorded outcome": Limit(files=50, changes=180),
    "HTTP start": Limit(files=65),
    "MCP execute_program": Limit(files=65),
}


_TIMES: Final = 8


class Walk:
    """Files of the functions that were entered, in order, while it is a profile function."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._names: dict[Any, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note the file of a function that is entered."""
        if event != "call":
            return
        code = frame.f_code
        name = self._names.get(code, "")
        if name == "":
            path = Path(code.co_filename)
            is_ours = path.is_relative_to(SOURCE) and code.co_name != "<module>"
            name = self._names[code] = path.relative_to(SOURCE).as_posix() if is_ours else None
        if name is not None:
            self.files.append(name)


@contextlib.contextmanager
def traced() -> Iterator[Walk]:
    """Trace this thread inside the block."""
    walk, before = Walk(), sys.getprofile()
    sys.setprofile(walk)
    try:
        yield walk
    finally:
        sys.setprofile(before)


def walk_command() -> Walk:
    """`toolfold run`, from the first line of the command."""
    from toolfold.interfaces.cli import main as command  # noqa: PLC0415  # traced from here on, imports apart

    argv, leave = sys.argv, os._exit
    sys.argv = ["toolfold", "run", "--tools", "tools.py", "--ledger", "command.sqlite", "program.py"]
    os._exit = sys.exit  # type: ignore[assignment]  # the command ends its process at once
    try:
        with (
            traced() as walk,
            contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())),
            contextlib.suppress(SystemExit),
        ):
            command()
    finally:
        sys.argv, os._exit = argv, leave
    return walk


async def walk_runtime() -> Walk:
    """`Runtime.run`, after one program that warms caches, as a server's second program would be.

    The shortest of several: on a busy machine a program waits in places where it usually need not.
    """
    from toolfold.ledger.ledger_factory import open_ledger  # noqa: PLC0415  # not before the command is traced

    async with toolfold.Runtime([_price()], ledger=open_ledger("runtime.sqlite")) as runtime:
        await runtime.run(PROGRAM)
        walks = []
        for _ in range(_TIMES):
            await asyncio.sleep(
                0.2
            )  # until its guest is gone and replaced, which is no part of the next program's path
            with traced() as walk:
                outcome = await runtime.run(PROGRAM)
            assert outcome.status == "finished", outcome
            walks.append(walk)
    return min(walks, key=lambda walk: _changes(walk.files))


async def walk_http() -> Walk:
    """`POST /exec/programmatic` with a tool of the client's, to the answer that asks for its call."""
    import httpx  # noqa: PLC0415  # the same

    from toolfold.interfaces.http import Settings, create_app  # noqa: PLC0415  # the same
    from toolfold.ledger.memory import MemoryLedger  # noqa: PLC0415  # the same

    ledger = MemoryLedger()
    app = create_app(toolfold.Runtime(ledger=ledger), ledger, Settings(keys={"tenant": "key"}))
    body = {"code": PROGRAM, "tools": [{"name": "price", "parameters": {"type": "object", "properties": {}}}]}
    headers = {"X-API-Key": "key"}
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://a") as client:
        await client.post("/exec/programmatic", json=body, headers=headers)
        with traced() as walk:
            reply = await client.post("/exec/programmatic", json=body, headers=headers)
        assert reply.json()["status"] == "tool_call_required", reply.text
    return walk


async def walk_mcp() -> Walk:
    """A call of `execute_program` by a client in memory."""
    from mcp import Client  # noqa: PLC0415  # the same

    from toolfold.interfaces.mcp import McpServer  # noqa: PLC0415  # the same
    from toolfold.interfaces.mcp.offered_tools import Offer  # noqa: PLC0415  # the same
    from toolfold.sources.function_tools import as_tool  # noqa: PLC0415  # the same

    runtime = toolfold.Runtime()
    async with McpServer(runtime, Offer(runtime, local=[as_tool(_price())])) as mcp, Client(mcp.server) as client:
        await client.call_tool("execute_program", {"code": PROGRAM})
        with traced() as walk:
            result = await client.call_tool("execute_program", {"code": PROGRAM})
        assert not result.is_error, result
    return walk


def _price() -> Any:
    @toolfold.tool(read_only=True)
    async def price(ticker: str) -> float:  # noqa: ARG001  # a tool of the trace
        """The last price of one share."""
        return 12.5

    return price


WALKS: Final[dict[str, Callable[[], Any]]] = {
    "toolfold run, whole command": walk_command,
    "Runtime.run to the recorded outcome": lambda: asyncio.run(walk_runtime()),
    "HTTP start": lambda: asyncio.run(walk_http()),
    "MCP execute_program": lambda: asyncio.run(walk_mcp()),
}


def main() -> int:
    """Print the counts; 1 if `--check` was passed and a walk is over its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 if a walk is over its limit")
    parser.add_argument("--files", action="store_true", help="name the files of each walk")
    parser.add_argument("--trace", choices=WALKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trace is not None:
        sys.stderr.write(json.dumps(WALKS[arguments.trace]().files))
        return 0
    is_over = False
    for name, limit in LIMITS.items():
        files = _traced_in_a_process(name)
        count, changes = len(set(files)), _changes(files)
        over = count > limit.files or (limit.changes is not None and changes > limit.changes)
        is_over |= over
        allowed = f"{limit.files} files" + (f" and {limit.changes} changes" if limit.changes is not None else "")
        print(f"{name}: {count} files, {changes} changes of file; {'OVER' if over else 'limit'} {allowed}")
        if arguments.files:
            print(*dict.fromkeys(files), sep="\n")
    return int(arguments.check and is_over)


def _changes(files: list[str]) -> int:
    return sum(a != b for a, b in itertools.pairwise(files))


def _traced_in_a_process(name: str) -> list[str]:
    """Each walk in a process of its own: the command ends its process, and nothing is warm from another walk."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tools.py").write_text(TOOLS, "utf-8")
        Path(folder, "program.py").write_text(PROGRAM, "utf-8")
        command = [sys.executable, __file__, "--trace", name]
        process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    try:
        files: list[str] = json.loads(process.stderr)
    except ValueError:
        raise SystemExit(f"{name!r} was not traced: {process.stderr}") from None
    return files


if __name__ == "__main__":
    sys.exit(main())
