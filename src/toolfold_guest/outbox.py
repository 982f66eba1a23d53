"""Frames to the host: JSON, because the host trusts nothing that comes from here and can parse that strictly."""

import json.encoder
import threading
from typing import Any

from toolfold_guest.output import Outlet, Stream
from toolfold_guest.wire import CALLS, ENDED, HEADER, MAX_ERROR_CHARACTERS, PRINTED, UNPACKED

_quote = json.encoder.encode_basestring
_OWN, _OUTPUTS = globals(), Outlet.write.__globals__
_OWN_FRAMES = 8
"""How deep a signal may find us in our own code, and in what that calls."""


class Outbox:
    """The sending end of one socket. Every frame takes along what the program has printed so far."""

    def __init__(self, stdout: Outlet, stderr: Outlet, streams: tuple[Stream, Stream]) -> None:
        self._stdout, self._stderr = stdout, stderr
        self._gather_stdout, self._gather_stderr = streams[0].gather, streams[1].gather
        stdout.full = stderr.full = self.send_printed
        self._sending = threading.Lock()

    def attach(self, sock: Any) -> None:
        """Begin a conversation."""
        self._stdout.reset()
        self._stderr.reset()
        self._sock, self._send = sock, sock.send

    def send_calls(self, calls: list[str], seen: int, tape: str) -> None:
        """Calls that have gathered; `seen` is -1 unless the guest waits."""
        self._emit(f"[{CALLS},{self._take_output()},[{','.join(calls)}],{seen},{tape}]")

    def send_printed(self) -> None:
        """Output that cannot wait for a call."""
        stdout, stderr = self._stdout.take(), self._stderr.take()
        if stdout or stderr:
            self._emit(f"[{PRINTED},{_quote(stdout)},{_quote(stderr)}]")

    def send_unpacked(self) -> None:
        """The program has its files: from here on, one that is not there was deleted by the program."""
        self._emit(f"[{UNPACKED}]")

    def send_last_words(self, *_: object) -> None:
        """The host is about to stop the program: what it printed so far must not go with it."""
        if self._sending.locked():
            # In the middle of a frame, which takes the output along.
            return
        try:
            self._gather_stdout()
            self._gather_stderr()
        except RuntimeError:
            # In the middle of a print; the lines before it have gathered.
            pass
        self.send_printed()

    def send_so_far(self, _: int, frame: Any) -> None:
        """The host has a reader. Not in the middle of our own work on the output, which may send it any moment."""
        for _ in range(_OWN_FRAMES):
            if frame is None:
                break
            if frame.f_globals is _OWN or frame.f_globals is _OUTPUTS:
                return
            frame = frame.f_back
        self.send_last_words()

    def send_end(self, status: str, value_text: str, error: str, message: str, hints: list[str]) -> None:
        """The last frame of a program."""
        output = self._take_output()
        cut = f"[{self._stdout.cut_bytes},{self._stderr.cut_bytes}]"
        said = f",{_quote(_shortened(message))},[{','.join(map(_quote, hints))}]" if message or hints else ""
        self._emit(f"[{ENDED},{output},{_quote(status)},{value_text},{_quote(_shortened(error))},{cut}{said}]")

    def _take_output(self) -> str:
        self._gather_stdout()
        self._gather_stderr()
        stdout, stderr = self._stdout.take(), self._stderr.take()
        return f"{_quote(stdout)},{_quote(stderr)}" if stdout or stderr else '"",""'

    def _emit(self, text: str) -> None:
        # One write for header and body: two would wake the host for four bytes.
        data = text.encode()
        frame = HEADER.pack(len(data)) + data
        # Threads send too, and half a frame inside of another is a breach.
        with self._sending:
            sent = self._send(frame)
            if sent != len(frame):
                self._sock.sendall(memoryview(frame)[sent:])


def _shortened(text: str) -> str:
    """A program may raise an error with a text of any length."""
    left_out = len(text) - MAX_ERROR_CHARACTERS
    if left_out <= 0:
        return text
    half = MAX_ERROR_CHARACTERS // 2
    return f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"
