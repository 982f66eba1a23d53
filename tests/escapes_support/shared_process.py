"""A host that runs programs with `exec` in its own process: the positive control of looking around.

Run by path: the texts come on stdin as JSON, a list of programs; with `fork` each but the last one
runs in a bare fork, as one writes a fork server first: no new seed, nothing closed.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

_SECONDS = 100.0


def run_in_shared_process(texts: list[str], *, fork: bool, folder: Path) -> list[str]:
    """What each program printed."""
    out = [str(folder / f"printed-{index}") for index in range(len(texts))]
    order = {"texts": texts, "fork": fork, "out": out}
    ours, theirs = os.pipe()
    process = subprocess.run(
        # -P: beside this file lies a `numbers.py`, which is not the standard library's.
        [sys.executable, "-P", __file__, os.environ["TOOLFOLD_CANARY"]],
        input=json.dumps(order).encode(),
        pass_fds=(ours, theirs),
        # Its programs write where they are and into the temporary folder: both are the test's own.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)},
        cwd=folder,
        timeout=_SECONDS,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    if process.returncode:
        return [f"exit status {process.returncode}"] * len(texts)
    return [Path(path).read_text(encoding="utf-8") for path in out]


def _main() -> None:
    # Only the child is a host that has these loaded, and seeded, before a program comes.
    import random  # noqa: F401

    import toolfold.models  # noqa: F401

    secret_of_the_host = sys.argv[1]  # noqa: F841  # for programs that walk frames
    order = json.loads(sys.stdin.read())
    for text, out in zip(order["texts"], order["out"], strict=True):
        if order["fork"] and text is not order["texts"][-1]:
            process = ctypes.PyDLL(None).fork()
            if process:
                os.waitpid(process, 0)
                continue
            _run(text, out)
            os._exit(0)
        _run(text, out)


def _run(text: str, out: str) -> None:
    with open(out, "w", encoding="utf-8") as file:
        sys.stdout = file
        try:
            exec(compile(text, "<program>", "exec"), {"__name__": "__main__"})
        except Exception as error:  # noqa: BLE001  # printed, so that a failing control says why
            print(f"{type(error).__name__}: {error}")
        finally:
            sys.stdout = sys.__stdout__


if __name__ == "__main__":
    _main()
