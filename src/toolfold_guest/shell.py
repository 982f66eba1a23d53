"""Main loop of a guest that runs bash programs: starts bash, passes its tool calls on, reports how it ended.

Rules:
1. As in `toolfold_guest.main`: `prepare` runs in the zygote, `main` in a locked guest; nothing here is a boundary.
2. This process is the first of its pid namespace, so its end is the end of all that the program started. It reaps what
   the program leaves behind.
3. Bash and its children have no socket: they speak to this process alone, through the folder that
   `shared.bash_functions` describes. What they say there becomes frames, which the host parses as those of any guest.
4. The program waits when each of its processes sleeps and no line of theirs is unread: `/proc` says so. A `sleep`
   counts as waiting, as timers do elsewhere.
5. In a replay the calls on record leave in the order of the record, whichever process comes first this time: a call is
   known by its tool, its arguments and its occurrence. One that is not on record leaves after all that are; where
   those never come, the host is told what came instead, and says that the replay differs.
"""

import contextlib
import json
import json.encoder
import marshal
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from toolfold_guest.program.output_streams import Outlet
from toolfold_guest.program.replay import place
from toolfold_guest.shared.bash_functions import (
    FOLDER_VARIABLE,
    SLOTS,
    absent_names,
    absent_text,
    bash_name,
    command_text,
    functions_text,
)
from toolfold_guest.shared.wire_format import (
    CALLS,
    ENDED,
    HEADER,
    HOLD,
    PRINTED,
    PROGRAM,
    RELEASE,
    REPLY,
    START,
    UNPACKED,
)

_READ_BYTES: Final = 64 * 1024
_MOST_LINE_BYTES: Final = 4096
"""Of a call; the kernel writes as much into a pipe in one piece."""
_FULL_FRAME_BYTES: Final = 1024 * 1024
_LONGEST_ARGUMENT: Final = 120 * 1024
"""Of a program that bash gets as an argument; the kernel takes 128 KiB."""
_LOOK_MILLISECONDS: Final = 2
_PATIENCE_MILLISECONDS: Final = 2000
"""In a replay, for a call that is due before others."""
_DRAIN_MILLISECONDS, _MOST_DRAIN_SECONDS = 200, 1.0
"""After the end of bash, for what its children still write, as in `> >(tee log)`: each pause, and all of it."""
_quote = json.encoder.encode_basestring


def prepare(library_set: str) -> None:
    """Nothing is loaded: a program starts processes of its own."""


def rehearse() -> None:
    """Nothing to touch: all that is costly happens after `execve`."""


def main(fd: int) -> NoReturn:
    """Serve the one program of that socket, then leave when the host has done with it."""
    host = _Host(socket.socket(fileno=fd))
    _, text, facts = host.next_message(PROGRAM)
    options = host.next_message(START)[1]
    if options.get("files"):
        for name, data in options["files"]:
            place(name, data)
        host.send(f"[{UNPACKED}]")
    _Supervisor(host, text, marshal.loads(facts), options).run()
    host.sock.recv(1)
    os._exit(0)


class _Host:
    """The socket to the host: marshalled messages in, JSON frames out."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._rest = b""
        self.messages: list[Any] = []
        """Those that came with the last one that was waited for."""

    def next_message(self, kind: int) -> Any:
        """Wait for a message of that kind; others are passed over."""
        while True:
            while self.messages:
                message = self.messages.pop(0)
                if message[0] == kind:
                    return message
            self.messages = self.receive()

    def receive(self) -> list[Any]:
        """The whole messages that have come; waits for bytes, not for whole messages."""
        data = self.sock.recv(_READ_BYTES)
        if not data:
            os._exit(0)
        self._rest += data
        messages = []
        while len(self._rest) >= HEADER.size:
            end = HEADER.size + HEADER.unpack_from(self._rest)[0]
            if len(self._rest) < end:
                break
            messages.append(marshal.loads(self._rest[HEADER.size : end]))
            self._rest = self._rest[end:]
        return messages

    def send(self, text: str) -> None:
        data = text.encode()
        self.sock.sendall(HEADER.pack(len(data)) + data)


class _Supervisor:
    """One bash program: its processes, its output and its open calls."""

    def __init__(self, host: _Host, text: str, facts: list[Any], options: dict[str, Any]) -> None:
        self._host = host
        self._text = text
        self._reports_waiting = bool(options.get("report_waiting"))
        self._stdin: bytes = options.get("stdin") or b""
        self._most_bytes: int = options["max_argument_bytes"]
        self._indexes = {bash_name(fact[0]): index for index, fact in enumerate(facts)}
        self._folder = f"{os.environ.get('TMPDIR', '/tmp')}/.toolfold"  # the guest's own
        self._outlets = Outlet(1), Outlet(2)
        self._lines = b""
        self._slots: dict[int, str] = {}
        """Of each open call, by its id."""
        self._callers: dict[str, str] = {}
        """The process that made the last call in each slot."""
        recorded: list[tuple[int, int, dict[str, Any]]] = options.get("recorded", [])
        self._recorded = {number: _key(index, arguments) for number, index, arguments in recorded}
        """Calls that are still to be made again, by their ids."""
        self._count = max(self._recorded, default=0)
        self._gaps: list[int] = sorted({*range(1, self._count)} - self._recorded.keys())
        """Ids of calls of which nothing is on record: they were about to ask for a yes."""
        self._last_sent = 0
        self._unsent: dict[int, str] = {}
        """By their ids, in the order in which they were made."""
        self._early: dict[int, Any] = {}
        """Replies to calls that are still to be made again."""
        self._replies_seen = 0
        self._told_waiting = -1
        self._is_held = False
        self._idle_looks = 0
        self._status: int | None = None

    def run(self) -> None:
        self._make_folder()
        # Bash runs the lines before a mistake: it reads them one by one.
        if "\n" in self._text and (error := self._syntax_error()):
            self._host.send(f'[{ENDED},"","","failed",null,{_quote(error)},[0,0]]')
            return
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        # The host asks for last words with this signal before it kills.
        signal.signal(signal.SIGTERM, lambda *_: self._send_output())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pipes = os.pipe(), os.pipe()
        self._bash = self._start(pipes[0][1], pipes[1][1])
        self._streams = {}
        for (reader, writer), outlet in zip(pipes, self._outlets, strict=True):
            os.close(writer)
            os.set_blocking(reader, False)
            self._streams[reader] = outlet
        self._poll = select.poll()
        for descriptor in (*self._streams, self._calls, wake, self._host.sock.fileno()):
            self._poll.register(descriptor, select.POLLIN)
        for message in self._host.messages:  # replies to calls that are on record
            self._obey(message)
        while self._status is None:
            self._turn(self._poll.poll(_LOOK_MILLISECONDS if self._may_wait else None), wake)
        self._end()

    @property
    def _may_wait(self) -> bool:
        is_told = self._told_waiting == self._replies_seen
        is_news = self._reports_waiting and bool(self._slots) and not is_told
        return (is_news or bool(self._unsent)) and not self._is_held

    def _turn(self, ready: list[tuple[int, int]], wake: int) -> None:
        descriptors = {descriptor for descriptor, _ in ready}
        if descriptors:
            self._idle_looks = 0
        for descriptor in descriptors & self._streams.keys():
            self._read_output(descriptor)
        if self._calls in descriptors:
            self._read_calls()
        if self._host.sock.fileno() in descriptors:
            for message in self._host.receive():
                self._obey(message)
        if wake in descriptors:
            os.read(wake, 512)
            self._reap()
        self._send_output()
        if descriptors or not self._may_wait or not self._is_idle():
            return
        if self._unsent or self._recorded:
            # A job that sleeps may yet make a call that is on record.
            self._idle_looks += 1
            if self._idle_looks * _LOOK_MILLISECONDS > _PATIENCE_MILLISECONDS and not self._is_asleep():
                self._end_difference()
        elif self._reports_waiting:
            self._told_waiting = self._replies_seen
            self._host.send(f'[{CALLS},"","",[],{self._replies_seen},null]')

    # processes

    def _start(self, stdout: int, stderr: int) -> int:
        arguments, environment = self._arguments(), self._environment()
        stdin = self._open_stdin()
        process = os.fork()
        if process:
            os.close(stdin)
            return process
        try:
            for descriptor, target in ((stdin, 0), (stdout, 1), (stderr, 2)):
                os.dup2(descriptor, target)
            os.closerange(3, 1024)
            # Python ignores it, and so would every command: `yes | head -1` would never end.
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGCHLD, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            os.execve("/usr/bin/bash", arguments, environment)  # noqa: S606  # no shell in between: this is the shell
        finally:
            os._exit(127)

    def _syntax_error(self) -> str:
        """What bash says of a text that it cannot read; empty for one that it can."""
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            try:
                os.dup2(writer, 2)
                os.execve("/usr/bin/bash", [*self._arguments()[:1], "-n", *self._arguments()[1:]], dict(os.environ))  # noqa: S606
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader, "rb") as file:
            text = file.read(_READ_BYTES).decode("utf-8", "replace").strip()
        _, status = os.waitpid(process, 0)
        return text if status else ""

    def _arguments(self) -> list[str]:
        if len(self._text.encode("utf-8", "surrogatepass")) <= _LONGEST_ARGUMENT:
            return ["bash", "-c", self._text]
        self._write("program", self._text)
        return ["bash", f"{self._folder}/program"]

    def _environment(self) -> dict[str, str]:
        prefix, here = sys.prefix, os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        packages = [path for path in sys.path if path.startswith(f"{prefix}/site") or "/libraries/" in path]
        return {
            **os.environ,
            "BASH_ENV": f"{self._folder}/functions",
            FOLDER_VARIABLE: self._folder,
            "LANG": "C.UTF-8",
            "LD_LIBRARY_PATH": f"{prefix}/lib:{prefix}/{sys.platlibdir}:{prefix}/bin",
            "PATH": f"/usr/local/bin:/usr/bin:/bin:{self._folder}/bin:{self._folder}/absent",
            "PWD": os.getcwd(),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHOME": prefix,
            "PYTHONPATH": ":".join([f"{self._folder}/python", here, *packages]),
            "SHELL": "/usr/bin/bash",
            "TERM": "dumb",
            "USER": "sandbox",
        }

    def _open_stdin(self) -> int:
        if not self._stdin:
            return os.open("/dev/null", os.O_RDONLY)
        self._write("stdin", self._stdin)
        return os.open(f"{self._folder}/stdin", os.O_RDONLY)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if not process:
                    break
                if process == self._bash:
                    self._status = os.waitstatus_to_exitcode(status)

    def _is_idle(self) -> bool:
        """Whether each process sleeps and has said nothing since; without /proc a quiet moment has to do."""
        if any(stat.rpartition(b") ")[2][:1] in b"RD" for stat in self._facts("stat")):
            return False
        return not self._poll.poll(0)

    def _is_asleep(self) -> bool:
        """Whether a process waits for a timer; some kernels do not say it of others than `sleep`."""
        return any(b"sleep" in fact for kind in ("comm", "wchan") for fact in self._facts(kind))

    def _facts(self, kind: str) -> Iterator[bytes]:
        """What /proc says of each process of the program."""
        with contextlib.suppress(OSError):
            for name in os.listdir("/proc"):
                if name.isdigit() and int(name) != os.getpid():
                    with contextlib.suppress(OSError), open(f"/proc/{name}/{kind}", "rb") as file:
                        yield file.read()

    # calls

    def _make_folder(self) -> None:
        os.makedirs(f"{self._folder}/bin", mode=0o700)
        for name in ("absent", "python"):
            os.mkdir(f"{self._folder}/{name}")
        for name in ("free", "calls", *(f"reply.{slot}" for slot in SLOTS)):
            os.mkfifo(f"{self._folder}/{name}", 0o600)
        # For both directions: nobody who opens the other end waits for us.
        self._free, self._calls = (os.open(f"{self._folder}/{name}", os.O_RDWR) for name in ("free", "calls"))
        os.set_blocking(self._calls, False)
        os.write(self._free, SLOTS.encode())
        self._replies: dict[str, int] = {}
        self._write("functions", functions_text(self._indexes))
        self._write("python/tools.py", "from toolfold_guest.shell_client import ToolError, __dir__, __getattr__\n")
        for name in self._indexes:
            self._write(f"bin/{name}", command_text(name))
            os.chmod(f"{self._folder}/bin/{name}", 0o700)
        for name in absent_names(self._text, self._indexes):
            self._write(f"absent/{name}", absent_text(name))
            os.chmod(f"{self._folder}/absent/{name}", 0o700)

    def _write(self, name: str, content: str | bytes) -> None:
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        with open(f"{self._folder}/{name}", "wb") as file:
            file.write(data)

    def _read_calls(self) -> None:
        self._lines += os.read(self._calls, _READ_BYTES)
        *lines, self._lines = self._lines.split(b"\n")
        for line in lines:
            self._take_call(line[:_MOST_LINE_BYTES])
        self._send_calls()

    def _send_calls(self, *, in_order_of_record: bool = True) -> None:
        while calls := self._due_calls(in_order_of_record):
            self._host.send(f"[{CALLS},{self._take_output()},[{','.join(calls)}],-1,null]")

    def _due_calls(self, in_order_of_record: bool) -> list[str]:
        calls: list[str] = []
        while self._unsent and sum(map(len, calls)) < _FULL_FRAME_BYTES:
            number = self._last_sent + 1
            rest = self._unsent.pop(number, None)
            if rest is None and in_order_of_record:
                break
            if rest is None:
                made, rest = next(iter(self._unsent.items()))
                del self._unsent[made]
                if made in self._slots:  # not answered yet
                    self._slots[number] = self._slots.pop(made)
            self._last_sent = number
            calls.append(f"[{number},{rest}]")
        return calls

    def _end_difference(self) -> None:
        """A call that is on record never came: let the host compare it with what came instead."""
        if self._last_sent + 1 in self._gaps:  # the host has nothing to compare
            self._outlets[1].write(b"the program makes other calls than before it was interrupted\n")
            self._status = 1
            return
        self._recorded.clear()
        self._send_calls(in_order_of_record=False)

    def _take_call(self, line: bytes) -> None:
        """A call for the next frame; one that makes no sense is answered here."""
        slot, _, rest = line.decode("ascii", "replace").partition(" ")
        words = rest.split(" ")
        if slot not in SLOTS or not slot or len(words) != 3:
            return
        self._callers[slot], number, name = words
        text = ""
        try:
            with open(f"{self._folder}/arguments.{slot}", "r+b") as file:
                text = file.read().decode("utf-8", "replace").strip() or "{}"
                file.truncate(0)
            arguments = json.loads(text)
            # What the host could not read ends the call, not the program.
            encoded = json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            size = len(encoded.encode())
        except (OSError, ValueError, RecursionError) as error:
            self._answer(slot, f"{name}: the argument is not valid JSON: {error}", is_ok=False)
            return
        if not isinstance(arguments, dict) or name not in self._indexes:
            reason = "takes one JSON object" if name in self._indexes else "no such tool in this program"
            self._answer(slot, f"{name}: {reason}, got {text[:100]}", is_ok=False)
            return
        if size > self._most_bytes:
            text = f"the arguments of {name!r} take {size} bytes; the limit is {self._most_bytes}"
            self._answer(slot, text, is_ok=False)
            return
        line_number = number if number.isdigit() and len(number) < 8 else "0"
        index = self._indexes[name]
        call_id = self._new_id(_key(index, arguments))
        self._unsent[call_id] = f"{index},{encoded},{line_number}"
        self._slots[call_id] = slot
        if call_id in self._early:
            self._reply(self._early.pop(call_id))

    def _new_id(self, key: tuple[int, str]) -> int:
        for number, recorded in self._recorded.items():
            if recorded == key:
                del self._recorded[number]
                return number
        if self._gaps:
            return self._gaps.pop(0)
        self._count += 1
        return self._count

    def _obey(self, message: Any) -> None:
        kind = message[0]
        if kind == REPLY:
            self._replies_seen += 1
            if message[1] in self._recorded:
                self._early[message[1]] = message
            else:
                self._reply(message)
        elif kind in (HOLD, RELEASE):
            self._is_held = kind == HOLD
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGSTOP if self._is_held else signal.SIGCONT)

    def _reply(self, message: Any) -> None:
        slot = self._slots.pop(message[1], None)
        if slot is not None:
            self._answer(slot, _compact(message[3]) if message[2] else str(message[3]), is_ok=message[2])

    def _answer(self, slot: str, text: str, *, is_ok: bool) -> None:
        if not _is_alive(self._callers[slot]):  # as behind `timeout`
            os.write(self._free, slot.encode())
            return
        status = b"0" if is_ok else b"1"
        try:
            self._write(f"value.{slot}", text)
        except OSError:  # the program has filled /tmp
            status = b"2"
        if slot not in self._replies:
            self._replies[slot] = os.open(f"{self._folder}/reply.{slot}", os.O_RDWR)
        os.write(self._replies[slot], status)

    # output and end

    def _read_output(self, descriptor: int) -> bool:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._poll.unregister(descriptor)
            del self._streams[descriptor]
            os.close(descriptor)
            return False
        self._outlets[0 if self._streams[descriptor] is self._outlets[0] else 1].write(data)
        return True

    def _send_output(self) -> None:
        output = self._take_output()
        if output != '"",""':
            self._host.send(f"[{PRINTED},{output}]")

    def _take_output(self) -> str:
        return ",".join(_quote(outlet.take()) for outlet in self._outlets)

    def _end(self) -> None:
        """What has been written is read; what the program left running ends."""
        deadline = time.monotonic() + _MOST_DRAIN_SECONDS
        while self._streams and time.monotonic() < deadline and self._poll_streams():
            pass
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        while self._streams and self._poll_streams():
            pass
        cut = ",".join(str(outlet.cut_bytes) for outlet in self._outlets)
        status, error = ("finished", "") if self._status == 0 else ("exit", _describe(self._status or 0))
        self._host.send(f'[{ENDED},{self._take_output()},"{status}",null,{_quote(error)},[{cut}]]')

    def _poll_streams(self) -> bool:
        poll = select.poll()
        for descriptor in self._streams:
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(_DRAIN_MILLISECONDS)
        for descriptor, _ in ready:
            self._read_output(descriptor)
        self._send_output()
        return bool(ready)


def _key(index: int, arguments: dict[str, Any]) -> tuple[int, str]:
    return index, json.dumps(arguments, sort_keys=True)


def _compact(value: Any) -> str:
    """One JSON value on one line; a text that is an object or a list is taken for one."""
    if isinstance(value, str) and value.strip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _describe(status: int) -> str:
    if status < 0:
        return f"bash was ended by {signal.Signals(-status).name}"
    return f"the program exited with status {status}"
