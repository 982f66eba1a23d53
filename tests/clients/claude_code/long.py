"""Five minutes under a client that waits for one: `make test NAME=claude-long`, with the npm packages in the folder given.

The real Claude Code with `MCP_TOOL_TIMEOUT=60000`: a program of five minutes comes to its end through `wait_program`,
with one request for each event; and again with the server killed in between. All cases run at once.
"""

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.clients.claude_code.__main__ import napping, naps, outlives
from tests.clients.claude_code.cli import WAIT, Case, Seen, run

TIMEOUT = (("MCP_TOOL_TIMEOUT", "60000"),)
WAITS = 6
"""Of 48 seconds each, after the first 48: 300 seconds are over in the last."""


def kill_the_server(turn: int, below: set[int]) -> None:
    """Before the third request."""
    if turn == 2:
        for pid in below:
            if b"toolfold\0mcp" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


def loses_nothing(seen: Seen) -> object:
    """The wait that meets the dead server fails; the next starts another, and has all that was printed."""
    (third,) = (at for at, (failed, _) in enumerate(seen.shown) if failed)
    assert seen.texts[third] == (True, "Connection closed"), seen.texts
    return outlives(replace(seen, shown=seen.shown[third + 1 :]))


CASES = [
    Case("five minutes", [naps(20, 15), *[WAIT] * WAITS], outlives, TIMEOUT, config=napping, seconds=400),
    Case(
        "the server killed in between", [naps(20, 15), *[WAIT] * (WAITS + 1)], loses_nothing, TIMEOUT, config=napping,
        seconds=450, on_turn=kill_the_server,
    ),
]  # fmt: skip


def main() -> int:
    """Run all cases at once; exit 1 if one failed."""
    packages = Path(sys.argv[1]).resolve()

    def one(case: Case) -> bool:
        began = time.perf_counter()
        try:
            said, is_fine = case.expected(run(case, packages)), True
        except AssertionError as error:
            said, is_fine = f"FAILED {error}", False
        print(f"  {case.name:<34}{time.perf_counter() - began:5.1f} s  {said}", flush=True)
        return is_fine

    cases = [case for case in CASES if all(word in case.name for word in sys.argv[2:])]
    with ThreadPoolExecutor() as pool:
        return 0 if all(pool.map(one, cases)) else 1


if __name__ == "__main__":
    sys.exit(main())
