"""`make demo-console`: a console, and programs that keep it alive until Ctrl-C."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = ("report", "refunds", "broken", "small", "misspelt")
COMMAND = [sys.executable, "-m", "toolfold"]


def main() -> None:
    """Start all of it, and one more program every few seconds."""
    (HERE.parent.parent / "build").mkdir(exist_ok=True)
    console = subprocess.Popen([*COMMAND, "console"], cwd=HERE)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for name in itertools.chain(PROGRAMS, itertools.cycle(("report", "small", "broken", "report", "small"))):
            command = [*COMMAND, "run", f"programs/{name}.py"]
            running.append(subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(1 if len(running) <= len(PROGRAMS) else 8)
            if console.poll() is not None:
                break
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
    finally:
        for one in (*running, console):
            one.terminate()


if __name__ == "__main__":
    main()
