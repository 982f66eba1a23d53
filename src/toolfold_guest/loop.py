"""The guest's main: wait for a program, run it, report how it ended.

Rules:
1. `prepare` runs once in the zygote, `rehearse` in each fork before the lock-down, `main` after it.
2. A guest serves one program, or those of one session, and waits for its end.
3. Nothing here is a security boundary: the program shares this process and can change all of it.
   The jail and the host's half of the protocol hold it.
"""

import _signal  # type: ignore[import-not-found]  # as `_socket`: the Python around them dirties pages
import _socket
import _thread
import asyncio
import ctypes
import functools
import gc
import json
import marshal
import os
import random
import select
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, NoReturn

from toolfold_guest import absent, ending, eventloop, notebook, offline, pending, preload, tape, tracebacks
from toolfold_guest.channel import Channel
from toolfold_guest.hints import hints_of
from toolfold_guest.namespace import Namespace, ToolFacts, lenient_loads, preset
from toolfold_guest.notebook import Returned
from toolfold_guest.output import Outlet, Stream
from toolfold_guest.patience import Patience
from toolfold_guest.recall import recall
from toolfold_guest.rewrite import RETURN_NAME, compile_in_parts, compile_program
from toolfold_guest.styles import style_of
from toolfold_guest.tape import Tape, install
from toolfold_guest.values import encode_value
from toolfold_guest.wire import HEADER, PLAIN, PROGRAM, REPLY, START, text_bytes

# Rule 4 of `toolfold_guest.zygote`.
_enable, _freeze = gc.enable, gc.freeze
_exit, _getcwd, _lseek, _SEEK_END = os._exit, os.getcwd, os.lseek, os.SEEK_END
_modules, _path = sys.modules, sys.path
_Socket, _AF_UNIX, _SOCK_STREAM = _socket.socket, _socket.AF_UNIX, _socket.SOCK_STREAM
_set_handler, _SIGTERM = _signal.signal, int(_signal.SIGTERM)
_threads = _thread._count
_ModuleType, _CodeType = types.ModuleType, types.CodeType
_seed_random = random.seed

_NOT_RESULTS = (types.FunctionType, types.ModuleType, type)
"""What a program may call `result` without meaning its value."""
_Codes = tuple[types.CodeType, types.CodeType | None]
"""The body of a program, and its last expression."""

CO_COROUTINE = 0x80
OWN_FRAMES = 11
"""Below the first frame of a program that awaits nothing."""
_HOST = (3,)  # where the zygote puts the guest's socket
LOOKS_UP_NAMES = frozenset(
    {"__globals__", "__main__", "dir", "eval", "exec", "f_globals", "globals", "locals", "modules", "vars"}
)
REHEARSALS = (
    "async def count():\n    return [x for x in range(3)]\nprint(f'{len(await count()):.2f}', await echo(value=2))",
    "print(await asyncio.gather(echo(value=1), asyncio.sleep(0)))",
)
_ECHO = ToolFacts("echo", "echo", (), "", "", ("value",), (), takes_object=False, doc="")
REHEARSAL_WITH_PANDAS = (
    "import numpy as np\nimport pandas as pd\n"
    "frame = pd.DataFrame({'a': np.arange(8) % 3, 'b': np.arange(8) / 2})\n"
    "str(frame.groupby('a')['b'].agg(['sum', 'mean', 'count']).sort_values('sum'))"
)


class _Made:
    """What `prepare` makes in the zygote; every guest starts with its own copy of the pages."""

    loop: eventloop.GuestLoop
    streams: tuple[Stream, Stream]
    first_streams: tuple[Any, Any]
    """The zygote's own, kept: to let go of the last reference to them takes a guest thirty pages."""
    channel: Channel
    start: bytes
    """A message to try one's hand on."""
    codes: _Codes
    """A program to try one's hand on."""
    session: types.ModuleType
    """The module in which programs run; a session's programs share it."""
    notes: list[str]
    """What to tell of the last program's value."""
    file: str
    """What the program takes for its own file."""


_made = _Made()  # not the class: a type that is changed must be looked up anew


def prepare(library_set: str) -> None:
    """Load libraries and build what every guest starts with. Called in the zygote, before any fork."""
    if library_set != "bare":
        preload.preload_data(with_science=library_set == "science")
    tape.prepare()
    ending.prepare()
    notebook.prepare()
    absent.prepare()
    pending.teach_inspect()
    _heed_signals()
    _count_own_frames()
    json.loads = lenient_loads  # type: ignore[assignment]  # takes more than the original
    loop = _made.loop = eventloop.GuestLoop()
    eventloop.install(loop)
    _made.first_streams = sys.stdout, sys.stderr
    stdout, stderr = Outlet(1), Outlet(2)
    _made.streams = sys.__stdout__, sys.__stderr__ = Stream(stdout), Stream(stderr)  # type: ignore[misc]  # none so far
    _made.channel = loop.poll_selector.channel = Channel(loop, stdout, stderr, _made.streams)
    _made.file = "program.py"
    _made.session = _ModuleType("__main__")
    _made.start = marshal.dumps((START, {"seed": 1}), PLAIN)
    _made.codes = compile_program("len('')")
    for text in REHEARSALS * 8:  # later passes specialise the bytecode
        said = _rehearse(text)
        assert b'"finished"' in said, said  # one that fails warms the wrong code, in silence
    try:
        raise ValueError
    except ValueError as error:
        tracebacks.describe(error, "")
    gc.collect()
    recall(Channel, "send_last_words _rest has_more tape")
    recall(Outlet, "_chunks")
    recall(Tape, "__init__ take is_replaying")
    recall(eventloop.GuestSelector, "_select_on_tape")
    recall(eventloop.GuestLoop, "after_select")
    recall(Patience, "__init__")
    recall(random.Random, "gauss_next")
    recall(dict, "update")
    recall(_Socket, "fileno recv_into send sendmsg")
    recall(type(threading.Lock()), "__enter__")


def _heed_signals() -> None:
    """The host asks for last words with SIGTERM: a program that will not hear it is heard at once instead."""
    block, handle = signal.pthread_sigmask, signal.signal

    def pthread_sigmask(how: Any, mask: Any) -> Any:
        before = block(how, mask)
        if signal.SIGTERM in block(signal.SIG_BLOCK, ()):
            _print_at_once()
        return before

    def set_handler(signalnum: Any, handler: Any) -> Any:
        before = handle(signalnum, handler)
        if signalnum == signal.SIGTERM:
            _print_at_once()
        return before

    signal.pthread_sigmask = functools.update_wrapper(pthread_sigmask, block)
    signal.signal = functools.update_wrapper(set_handler, handle)


def _count_own_frames() -> None:
    """A program may go as deep as under the interpreter alone, and is told the limit that it knows."""
    get, put = sys.getrecursionlimit, sys.setrecursionlimit

    def getrecursionlimit() -> int:
        return get() - OWN_FRAMES

    def setrecursionlimit(limit: int, /) -> None:
        put(limit + OWN_FRAMES if limit > 0 else limit)

    put(get() + OWN_FRAMES)
    sys.getrecursionlimit = functools.update_wrapper(getrecursionlimit, get)
    sys.setrecursionlimit = functools.update_wrapper(setrecursionlimit, put)


def _print_at_once() -> None:
    for stream in _made.streams:
        stream.flush()
        stream.reconfigure(line_buffering=True)


def rehearse() -> None:
    """Touch the pages that a program will need, unless one waits already: then it is as fast to run it."""
    if not select.select(_HOST, (), (), 0)[0]:
        compile_in_parts("pass")  # what ends in a statement
        _rehearse(REHEARSALS[0])
        if "pandas" in sys.modules:
            _rehearse(REHEARSAL_WITH_PANDAS)


def _rehearse(text: str) -> bytes:
    """Run a program against a socket pair; what the host would have been sent."""
    # A message at a time: the reply must not be read along with the program, for nothing would wake the loop for it.
    guest_end, host_end = socket.socketpair(type=socket.SOCK_SEQPACKET)
    streams = sys.stdout, sys.stderr
    options = {"preset": ("asyncio",), "max_argument_bytes": 100, "seed": None, "files": [], "session": False}
    messages: list[tuple[Any, ...]] = [(PROGRAM, text, marshal.dumps([tuple(_ECHO)], PLAIN)), (START, options)]
    if "echo" in text:
        messages.append((REPLY, 1, True, 1, False))
    for message in messages:
        body = marshal.dumps(message, PLAIN)
        host_end.send(HEADER.pack(len(body)) + body)
    try:
        _serve(guest_end)
    finally:
        _made.loop.remove_reader(guest_end)
        # Here, so that no guest has to let go of this one.
        _made.session = _modules["__main__"] = _ModuleType("__main__")
        sys.stdout, sys.stderr = streams
        guest_end.close()
    with host_end:
        return b"".join(iter(lambda: host_end.recv(4096), b""))


def main(fd: int) -> NoReturn:
    """Serve the programs of that socket, one or a session's, then leave when the host has done with it."""
    _freeze()
    _enable()
    folder = _getcwd()
    _path.append(folder)  # modules that the caller gave, or that the program writes, can be imported
    _made.file = folder + "/program.py"
    sock = _Socket(_AF_UNIX, _SOCK_STREAM, 0, fd)
    _set_handler(_SIGTERM, _made.channel.send_last_words)
    goes_on = _serve(sock, _limber)
    while goes_on:
        goes_on = _serve(sock)
    # To end takes the kernel milliseconds, and the host, which this has just woken, may have to wait for this core.
    sock.recv(1)
    _exit(0)


def _limber() -> None:
    """Until the start comes, have what it needs in the caches of this core, and stay awake for it.

    Before a guest's first program only: what a session's later ones would call here may be the session's own by then.
    """
    has_more = _made.channel.has_more
    if has_more():
        return
    _seed(marshal.loads(_made.start)[1]["seed"])
    if has_more():
        return
    encode_value(_execute(_made.codes, {}, ""))
    _add_low_level_output(_made.streams[0])
    _made.channel.look_for_start()


def _serve(sock: Any, meanwhile: Callable[[], None] | None = None) -> bool:
    """Run one program; true if its session goes on. `meanwhile` is for the time until its start comes."""
    channel = _made.channel
    channel.attach(sock)
    _made.loop.poll_selector.busy_turns = 0  # a replay counts them too, and may have had no rehearsal
    sys.stdout, sys.stderr = _made.streams
    text, tools = channel.receive_program()
    codes = _make_ready(channel, text, tools)
    if meanwhile is not None:
        meanwhile()
    options = channel.receive_start()
    channel.report_waiting = options.get("report_waiting", False)
    channel.max_argument_bytes = options["max_argument_bytes"]
    if "tape" in options:
        channel.tape = Tape(*options["tape"])
        install(channel.tape, options["seed"])
    else:
        _seed(options["seed"])
    if options.get("files"):
        for name, data in options["files"]:
            _place(name, data)
        channel.send_unpacked()
    status, value, error, message = _run(codes, text, options)
    is_session = bool(options.get("session"))
    if _threads() and not is_session:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for the program's threads, as an exit does
    hints = hints_of(channel, _made.notes)
    if ending.leaves_something(text):
        ending.end(_made.session.__dict__, is_session=is_session)
    _add_low_level_output(_made.streams[0], text)
    channel.send_end(status, value, error, message, hints)
    if is_session:
        _restore_streams()
    return is_session


def _restore_streams() -> None:
    """For the next program of a session, whatever the last one did to them."""
    sys.__stdout__, sys.__stderr__ = _made.streams  # type: ignore[misc]  # read-only to mypy
    for stream in _made.streams:
        stream.reopen()


def _make_ready(channel: Channel, text: str, tools: list[Any]) -> _Codes | BaseException:
    """All that needs no start: the text may yet be refused, so nothing of the program runs here."""
    _modules["__main__"] = _made.session
    names = _made.session.__dict__
    names[RETURN_NAME] = Returned
    names["__file__"] = _made.file
    tracebacks.remember_source(text, _made.file)
    names.pop("result", None)  # of an earlier program
    try:
        codes = compile_in_parts(text) or compile_program(text)
        namespace = Namespace(channel, tools)
        mentioned = _mentioned(codes)
        wanted = namespace.wanted(mentioned)
        if wanted or "tools" in text:
            namespace.style = style_of(text, wanted)
            if namespace.style != "awaited":
                codes = _recompile(namespace, text, wanted) or codes
                mentioned = _mentioned(codes)
        namespace.fill(names, mentioned)
        offline.tools[0] = namespace.names
        for name in notebook.READY if mentioned is None else notebook.READY & mentioned:
            names.setdefault(name, notebook.ready(name))
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is the program's outcome once that is started
        return error
    return codes


def _recompile(namespace: Namespace, text: str, wanted: set[str]) -> _Codes | None:
    """The code of a program that does not await all its calls; `None` if that need not differ."""
    reading = namespace.reading(wanted)
    if namespace.style == "mixed":
        return compile_program(text, wanted or {"tools"}, reading)
    listed = {name for name in reading if f"[{name}(" in text}
    return compile_program(text, reading=listed) if listed else None


def _run(codes: _Codes | BaseException, text: str, options: dict[str, Any]) -> tuple[str, str, str, str]:
    """How it ended: status, value, the whole report, and the report's message where that is only a part of it."""
    names = _made.session.__dict__
    _made.notes = []
    try:
        if isinstance(codes, BaseException):
            raise codes
        for name in options["preset"]:
            names[name] = preset(name)
        value = _execute(codes, names, text)
        if value is None:
            value = names.get("result")
            if isinstance(value, _NOT_RESULTS):
                value = None
        encoded, _made.notes = encode_value(notebook.with_pictures(value))
        limit = options.get("max_value_bytes", 0)
        if limit and len(encoded) * 4 > limit and text_bytes(encoded) > limit:
            size = text_bytes(encoded)
            return "limit", "null", f"the program's value takes {size} bytes; the limit is {limit}", ""
        return "finished", encoded, "", ""
    except SystemExit as leaving:
        return _leave(leaving)
    except MemoryError as error:
        if not options.get("session"):
            names.clear()  # room to say so
        return "memory", "null", *tracebacks.describe(error, text)
    except BaseException as error:  # noqa: BLE001  # whatever the program raised is its outcome
        return "failed", "null", *tracebacks.describe(error, text)


def _execute(codes: _Codes, names: dict[str, Any], text: str) -> Any:
    try:
        # A program that never mentions asyncio and awaits nothing needs no running loop.
        if any(code.co_flags & CO_COROUTINE for code in codes if code) or "asyncio" in text:
            return _made.loop.run_until_complete(_drive(codes, names))
        exec(codes[0], names)  # noqa: S102  # running the program is what this is for
        value = eval(codes[1], names) if codes[1] else None
    except Returned as returned:
        return returned.value
    return value


async def _drive(codes: _Codes, names: dict[str, Any]) -> Any:
    try:
        value = None
        for code in codes:
            if code is not None:
                value = eval(code, names)
                if code.co_flags & CO_COROUTINE:
                    value = await value
        return value
    except Returned as returned:
        return returned.value
    finally:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            await _cancel(rest)
        if _made.loop._asyncgens:  # type: ignore[attr-defined]  # asyncio's own list of those that are not at their end
            await _made.loop.shutdown_asyncgens()


async def _cancel(tasks: Any) -> None:
    """What the program did not wait for ends with it, as under `asyncio.run`."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _leave(leaving: SystemExit) -> tuple[str, str, str, str]:
    if leaving.code is None or leaving.code == 0:
        return "finished", "null", "", ""
    return "failed", "null", f"SystemExit: {leaving.code}", ""


def _mentioned(codes: tuple[types.CodeType | None, ...]) -> set[str] | None:
    """Every global name in the program's code; `None` if it looks names up by itself."""
    names: set[str] = set()
    open_codes = [code for code in codes if code is not None]
    while open_codes:
        code = open_codes.pop()
        names.update(code.co_names)
        open_codes.extend(constant for constant in code.co_consts if isinstance(constant, _CodeType))
    return names if names.isdisjoint(LOOKS_UP_NAMES) else None


def _place(name: str, data: bytes) -> None:
    """A file the caller gave, in the data folder, which is the working directory."""
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "wb") as file:
        file.write(data)


def _seed(seed: int | None) -> None:
    # A fork without Python's own hooks: each guest would draw the zygote's numbers.
    _seed_random(seed)
    numpy = _modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(random.getrandbits(32) if seed is None else seed & 0xFFFFFFFF)


def _add_low_level_output(stdout: Any, text: str = "") -> None:
    """What C code or `os.write(1, ...)` wrote lies in the file behind descriptors 1 and 2."""
    try:
        if "ctypes" in text:
            ctypes.CDLL(None).fflush(None)  # what `printf` of a C library left in its buffer
        size = _lseek(1, 0, _SEEK_END)
        if size > 0:
            stdout.reopen()
            stdout.buffer.write(os.pread(1, size, 0))
            os.ftruncate(1, 0)
            os.lseek(1, 0, os.SEEK_SET)
    except OSError:
        return  # the program closed it, or put something else there
