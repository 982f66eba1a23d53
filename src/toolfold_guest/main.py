"""Main loop of the guest: wait for a program, run it, report how it ended.

Rules:
1. `prepare` runs once in the zygote, `rehearse` in each fork before the lock-down, `main` after it.
2. A guest serves one program, or those of one session, and waits for its end.
3. Nothing here is a security boundary: the program shares this process and can change all of it.
   The jail and the host's half of the protocol hold it.
"""

import asyncio
import builtins
import gc
import json
import marshal
import random
import select
import socket
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, NoReturn

from toolfold_guest import module_copies, preload
from toolfold_guest.calls import pending_call
from toolfold_guest.calls.channel import Channel
from toolfold_guest.calls.message_transport import GuestInbox, GuestOutbox
from toolfold_guest.preload import use as use_set
from toolfold_guest.program import event_loop, replay, termination
from toolfold_guest.program.compiler import RETURN_NAME, compile_in_parts, compile_program
from toolfold_guest.program.namespace import CO_COROUTINE, NOT_RESULTS, Codes, Namespace, lenient_loads, preset
from toolfold_guest.program.output_streams import Outlet, Stream, add_low_level_output
from toolfold_guest.program.replay import GuestTape, give, install, place, seed_random, take_back
from toolfold_guest.program.termination import hints_of
from toolfold_guest.program.value_encoder import encode_value
from toolfold_guest.shared import reserved_names as shared_names
from toolfold_guest.shared.call_style import ToolFacts
from toolfold_guest.shared.wire_format import HEADER, PLAIN, PROGRAM, REPLY, START, text_bytes
from toolfold_guest.stdlib import blocked_calls, interpreter_patches, notebook
from toolfold_guest.stdlib.notebook import Returned
from toolfold_guest.stdlib_names import (
    SIGTERM,
    SIGURG,
    SOCK_STREAM,
    ModuleType,
    Socket,
    enable_gc,
    exit_now,
    freeze_gc,
    getcwd,
    modules,
    search_path,
    set_handler,
    thread_count,
)

_AF_UNIX = 1  # by number: on WebAssembly, where nobody needs it, the name is missing
_HOST = 3  # where the zygote puts the guest's socket
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


class _GuestState:
    """What `prepare` makes in the zygote; every guest starts with its own copy of the pages."""

    loop: event_loop.GuestLoop
    streams: tuple[Stream, Stream]
    first_streams: tuple[Any, Any]
    """The zygote's own, kept: to let go of the last reference to them takes a guest thirty pages."""
    channel: Channel
    session: types.ModuleType
    """The module in which programs run; a session's programs share it."""
    notes: list[str]
    """What to tell of the last program's value."""
    file: str
    """What the program takes for its own file."""
    start: bytes
    codes: Codes
    """A start and a program that do nothing, to warm the caches with."""
    look_for_program: Callable[[int], Any]  # with the time to wait for it


_state = _GuestState()  # not the class: a type that is changed must be looked up anew


class _SocketScript:
    """A host that has its answers ready."""

    def __init__(self, frames: list[bytes]) -> None:
        # A message at a time: the reply must not be read along with the program; nothing would wake the loop for it.
        self.guest_end, self._host_end = socket.socketpair(type=socket.SOCK_SEQPACKET)
        for frame in frames:
            self._host_end.send(frame)

    def output(self) -> bytes:
        """What the guest sent; ends the conversation."""
        self.guest_end.close()
        with self._host_end:
            return b"".join(iter(lambda: self._host_end.recv(4096), b""))


rehearsal_script: Any = _SocketScript
outlet_type: type[Outlet] = Outlet
"""These two are others where the host is not at the end of a socket."""


def prepare(library_set: str) -> None:
    """Load libraries and build what every guest starts with. Called in the zygote, before any fork."""
    if library_set != "bare":
        preload.preload_data(with_science=library_set == "science")
    replay.prepare()
    termination.prepare()
    notebook.prepare()
    blocked_calls.prepare()
    pending_call.teach_inspect()
    json.loads = lenient_loads  # type: ignore[assignment]  # takes more than the original
    loop = _state.loop = event_loop.GuestLoop()
    event_loop.install(loop)
    _state.first_streams = sys.stdout, sys.stderr
    stdout, stderr = outlet_type(1), outlet_type(2)
    _state.streams = sys.__stdout__, sys.__stderr__ = Stream(stdout), Stream(stderr)  # type: ignore[misc]  # none so far
    inbox, outbox = GuestInbox(loop), GuestOutbox(stdout, stderr, _state.streams)
    _state.channel = loop.poll_selector.channel = Channel(loop, inbox, outbox)
    pending_call.note_coroutines(_state.channel.habits)
    interpreter_patches.heed_signals(_state.streams)
    interpreter_patches.count_own_frames()
    _state.file = "program.py"
    _state.session = _new_main()
    _state.look_for_program = (poll := select.poll()).poll
    poll.register(_HOST, select.POLLIN)
    _state.start = marshal.dumps((START, {"seed": 1}), PLAIN)
    _state.codes = compile_program("len('')")
    for number, text in enumerate(REHEARSALS * 8):
        output = _rehearse(text)
        # One that fails warms the wrong code, in silence.
        assert b'"finished"' in output, output
        if number == 1:  # all is loaded now; later passes specialise the bytecode, for these copies
            module_copies.take_back_builtins()
            module_copies.copy_modules()
    try:
        raise ValueError
    except ValueError as error:
        termination.describe(error, "")
    gc.collect()


def rehearse() -> None:
    """Touch the pages that a program will need, unless one waits already: then it is as fast to run it."""
    if not _state.look_for_program(0):
        compile_in_parts("pass")  # what ends in a statement
        _rehearse(REHEARSALS[0])
        if "pandas" in sys.modules:
            _rehearse(REHEARSAL_WITH_PANDAS)


def _rehearse(text: str) -> bytes:
    """Run a program against a script; what the host would have been sent."""
    streams = sys.stdout, sys.stderr
    options = {"preset": ("asyncio",), "max_argument_bytes": 100, "seed": None, "files": [], "session": False}
    messages: list[tuple[Any, ...]] = [(PROGRAM, text, marshal.dumps([tuple(_ECHO)], PLAIN)), (START, options)]
    if "echo" in text:
        messages.append((REPLY, 1, True, 1, False))
    bodies = [marshal.dumps(message, PLAIN) for message in messages]
    script = rehearsal_script([HEADER.pack(len(body)) + body for body in bodies])
    try:
        serve(script.guest_end)
    finally:
        _state.loop.remove_reader(script.guest_end)
        # Here, so that no guest has to let go of this one.
        _state.session = modules["__main__"] = _new_main()
        sys.stdout, sys.stderr = streams
        output: bytes = script.output()
    return output


def _new_main() -> types.ModuleType:
    """The module of a program, with the builtins that it shares with what it imports."""
    module = ModuleType("__main__")
    vars(module)["__builtins__"] = builtins
    return module


def main(fd: int) -> NoReturn:
    """Serve the programs of that socket, one or a session's, then leave when the host has done with it."""
    # What the fork brought along is not the program's: the collector need not look at it, nor copy its pages.
    freeze_gc()
    enable_gc()
    use_folder(getcwd())
    sock = Socket(_AF_UNIX, SOCK_STREAM, 0, fd)
    # The host asks for last words with this signal before it kills.
    set_handler(SIGTERM, _state.channel.outbox.send_last_words)
    # And with this one for what was printed so far, while somebody reads along.
    set_handler(SIGURG, _state.channel.outbox.send_so_far)
    goes_on = serve(sock, _warm_caches)
    while goes_on:
        goes_on = serve(sock)
    # To end takes the kernel milliseconds, and the host, which this has just woken, may have to wait for this core.
    sock.recv(1)
    exit_now(0)


def use_folder(folder: str) -> None:
    """Modules in the data folder, which the caller gave or the program writes, can be imported."""
    search_path.append(folder)
    _state.file = folder + "/program.py"


def streams() -> tuple[Stream, Stream]:
    """The program's standard output and error."""
    return _state.streams


def _warm_caches() -> None:
    """Until the start comes, have what it needs in the caches of this core, and stay awake for it.

    Before a guest's first program only: what a session's later ones would call here may be the session's own by then.
    """
    inbox = _state.channel.inbox
    if inbox.has_more():
        return
    _seed(marshal.loads(_state.start)[1]["seed"])
    if inbox.has_more():
        return
    encode_value(_execute(_state.codes, {}, ""))
    add_low_level_output(_state.streams)
    inbox.look_for_start()


def serve(sock: Any, meanwhile: Callable[[], None] | None = None) -> bool:
    """Run the next program of a conversation; whether there may be another, as in a session."""
    channel = _state.channel
    # Program and start come apart: the first as soon as the host has the text, the second when its check is done.
    channel.attach(sock)
    # A replay counts them too, and may have had no rehearsal.
    _state.loop.poll_selector.busy_turns = _state.loop.task_count = 0
    sys.stdout, sys.stderr = _state.streams
    text, tools = channel.inbox.receive_program()
    codes = _make_ready(channel, text, tools)
    # While the host checks the text, not while it waits for the end.
    leaves_something = termination.leaves_something(text)
    may_write_outside = termination.may_write_outside(text)
    if meanwhile is not None:
        meanwhile()
    options = channel.inbox.receive_start()
    channel.unsent.reports_waiting = options.get("report_waiting", False)
    channel.max_argument_bytes = options["max_argument_bytes"]
    if "tape" in options:
        channel.inbox.tape = GuestTape(*options["tape"])
        install(channel.inbox.tape, options["seed"])
    else:
        _seed(options["seed"])
    if "clock" in options or "stdin" in options:
        give(_state.loop, options)
    if "library_set" in options:
        use_set(options["library_set"])
    # Before the program and after its start: a program that is refused must leave no files in a session.
    if options.get("files"):
        for name, data in options["files"]:
            place(name, data)
        channel.outbox.send_unpacked()
    is_session = bool(options.get("session"))
    try:
        ending = _run(codes, text, options)
        # A session's threads may live on until its next program; any other program ends with its threads.
        if thread_count() and not is_session:
            threading._shutdown()  # type: ignore[attr-defined]  # waits for the program's threads, as an exit does
        hints = hints_of(channel.habits, _state.notes) if _state.notes or channel.habits.has_any() else []
        unmade = termination.unmade_calls(channel.habits) if channel.habits.has_pending or channel.habits.unmade else []
        if may_write_outside:
            hints += termination.hint_at_files_outside()
        if leaves_something or termination.has_handlers():
            termination.end(_state.session.__dict__, is_session=is_session)
        add_low_level_output(_state.streams, text)
    except BaseException as error:  # noqa: BLE001  # what the program changed is needed here: still no reason to be silent
        ending, hints, unmade = ("failed", "null", *termination.describe_briefly(error)), [], []
    channel.outbox.send_end(*ending, hints, unmade)
    if is_session:
        _restore_streams()
        take_back(_state.loop)
    return is_session


def _restore_streams() -> None:
    """For the next program of a session, whatever the last one did to them."""
    sys.__stdout__, sys.__stderr__ = _state.streams  # type: ignore[misc]  # read-only to mypy
    for stream in _state.streams:
        stream.reopen()


def _make_ready(channel: Channel, text: str, tools: list[Any]) -> Codes | BaseException:
    """All that needs no start: the text may yet be refused, so nothing of the program runs here."""
    modules["__main__"] = _state.session
    names = _state.session.__dict__
    names[RETURN_NAME] = Returned
    names["__file__"] = _state.file
    termination.remember_source(text, _state.file)
    # Else a program that sets no result would return that of the one before.
    names.pop("result", None)  # of an earlier program
    try:
        namespace = Namespace(channel, tools)
        codes = namespace.prepare(text, names)
        shared_names.tools[0] = namespace.names
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is the program's outcome once that is started
        return error
    return codes


def _run(codes: Codes | BaseException, text: str, options: dict[str, Any]) -> tuple[str, str, str, str]:
    """How it ended: status, value, the whole report, and the report's message where that is only a part of it."""
    names = _state.session.__dict__
    _state.notes = []
    try:
        if isinstance(codes, BaseException):
            raise codes
        for name in options["preset"]:
            names[name] = preset(name)
        value = _execute(codes, names, text)
        # A program that ends in a statement may name its value instead.
        if value is None:
            value = names.get("result")
            if isinstance(value, NOT_RESULTS):
                value = None
        # `result = main()` and `return main()`: what else could be meant than what `main` gives?
        if type(value) is types.CoroutineType:
            value = _state.loop.run_until_complete(_drive((), names, value))
        encoded, _state.notes = encode_value(notebook.with_pictures(value))
        limit = options.get("max_value_bytes", 0)
        if limit and len(encoded) * 4 > limit and text_bytes(encoded) > limit:
            size = text_bytes(encoded)
            return "limit", "null", f"the program's value takes {size} bytes; the limit is {limit}", ""
        return "finished", encoded, "", ""
    # `exit()` is an end like any other; with a text or a number it is a failure.
    except SystemExit as leaving:
        return _leave(leaving)
    except MemoryError as error:
        if not options.get("session"):
            names.clear()  # room to say so
        return "memory", "null", *termination.describe(error, text)
    except BaseException as error:  # noqa: BLE001  # whatever the program raised is its outcome
        return "failed", "null", *termination.describe(error, text)


def _execute(codes: Codes, names: dict[str, Any], text: str) -> Any:
    try:
        # A program that never mentions asyncio and awaits nothing needs no running loop.
        if any(code.co_flags & CO_COROUTINE for code in codes if code) or "asyncio" in text:
            return _state.loop.run_until_complete(_drive(codes, names))
        exec(codes[0], names)  # noqa: S102  # running the program is what this is for
        value = eval(codes[1], names) if codes[1] else None
    except Returned as returned:
        return returned.value
    return value


async def _drive(codes: tuple[types.CodeType | None, ...], names: dict[str, Any], coroutine: Any = None) -> Any:
    try:
        value = None if coroutine is None else await coroutine
        for code in codes:
            if code is not None:
                value = eval(code, names)
                if code.co_flags & CO_COROUTINE:
                    value = await value
        return value
    except Returned as returned:
        return returned.value
    # Also after an error: a task that runs on would call tools for a program that is over.
    finally:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            await _cancel(rest)
        if _state.loop._asyncgens:  # type: ignore[attr-defined]  # asyncio's own list of those that are not at their end
            await _state.loop.shutdown_asyncgens()


async def _cancel(tasks: Any) -> None:
    """What the program did not wait for ends with it, as under `asyncio.run`."""
    for task in tasks:
        coroutine = task.get_coro()
        origin = pending_call.origin_of(coroutine) if type(coroutine) is types.CoroutineType else None
        if origin is not None:
            _state.channel.habits.unmade.append(origin)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _leave(leaving: SystemExit) -> tuple[str, str, str, str]:
    if leaving.code is None or leaving.code == 0:
        return "finished", "null", "", ""
    return "failed", "null", f"SystemExit: {leaving.code}", ""


def _seed(seed: int | None) -> None:
    # A fork without Python's own hooks: each guest would draw the zygote's numbers.
    seed_random(seed)
    numpy = modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(random.getrandbits(32) if seed is None else seed & 0xFFFFFFFF)
