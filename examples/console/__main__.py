"""`make demo-console`: a console, and programs that keep it alive until Ctrl-C."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = ("report", "refunds", "broken", "small", "misspelt")
COMMAND = [sys.executable, "-m", "toolfold"]
STOP_SECONDS = 10


def main() -> int:
    """Start all of it, and one more program every few seconds; arguments are options of `toolfold console`."""
    print("starting a console and programs to watch in it", file=sys.stderr, flush=True)
    # As Ctrl-C: whoever stops the demo stops what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    (HERE.parent.parent / "build").mkdir(exist_ok=True)
    running: list[subprocess.Popen[bytes]] = []
    try:
        console = subprocess.Popen([*COMMAND, "console", *sys.argv[1:]], cwd=HERE)
        running.append(console)
        for name in itertools.chain(PROGRAMS, itertools.cycle(("report", "small", "broken", "report", "small"))):
            command = [*COMMAND, "run", f"programs/{name}.py"]
            running.append(subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(1 if len(running) <= len(PROGRAMS) + 1 else 8)
            if (code := console.poll()) is not None:
                return code
    except KeyboardInterrupt:
        _stop(running)  # first: until then the console may say something, too
        print("\nstopped", file=sys.stderr)
    finally:
        _stop(running)
    return 0


def _stop(running: list[subprocess.Popen[bytes]]) -> None:
    for one in running:
        one.terminate()
    for one in running:
        try:
            one.wait(STOP_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            one.kill()
            one.wait()


if __name__ == "__main__":
    sys.exit(main())
