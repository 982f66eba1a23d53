"""Probe program for jail tests and the doctor: runs texts and reports how each ended.

Speaks the frames of `wire_format` with JSON inside: `{"text": ..., "names": {...}}` in,
`{"result": ...}` or `{"error": "<type>: <message>"}` out.
"""

import builtins
import json
import os
import socket
from typing import Any, NoReturn

from toolfold_guest.shared.wire_format import HEADER


def prepare(library_set: str) -> None:
    """Nothing to load."""


def rehearse() -> None:
    """Nothing to touch."""


def main(fd: int) -> NoReturn:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
    stream = sock.makefile("rwb")
    while header := stream.read(HEADER.size):
        order = json.loads(stream.read(HEADER.unpack(header)[0]))
        answer = json.dumps(_run(order["text"], order["names"])).encode()
        stream.write(HEADER.pack(len(answer)) + answer)
        stream.flush()
    os._exit(0)


def _run(text: str, names: dict[str, Any]) -> dict[str, Any]:
    names = {"__name__": "__main__", "__builtins__": builtins, **names}
    try:
        exec(compile(text, "<probe>", "exec"), names)  # noqa: S102  # what it is for; the jail holds it
        return {"result": names.get("result")}
    except BaseException as error:  # noqa: BLE001  # how the attack failed is the answer
        return {"error": f"{type(error).__name__}: {error}"}
