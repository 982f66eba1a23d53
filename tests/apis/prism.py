"""Prism, which nobody here wrote: it reads a document and validates every request against it."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.ports import reserved_port

START_SECONDS = 600


@contextlib.contextmanager
def prism(modules: Path, document: Path) -> Iterator[str]:
    """Its URL once it listens, which takes a minute for GitHub's document, and longer on a busy machine."""
    port = reserved_port()
    command = ["node", str(modules / ".bin/prism"), "mock", "-p", str(port), "-v", "fatal", str(document)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise SystemExit(f"Prism does not listen: exit code {process.poll()}")
