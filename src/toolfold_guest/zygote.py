"""Fork server inside the jail: loads libraries once, then forks a locked guest per request.

Rules:
1. No program ever runs here. Descriptors 3 (control) and 4 (/proc) are this process's alone.
2. A guest is the first process of a pid namespace of its own, so its end is the end of all in it.
3. The end of the control socket is the end: the host may be gone without a word.
4. What a guest uses after the fork it finds among its module's own names: see `toolfold_guest.stdlib_names`.
"""

import array
import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import site
import socket
import sys
import threading
from typing import Any, Final, NoReturn

from toolfold_guest import preload
from toolfold_guest import preload as toolfold_guest_preload
from toolfold_guest.jail import kernel_calls, lockdown
from toolfold_guest.jail.kernel_calls import PROC_FD, take
from toolfold_guest.jail.lockdown import ForkPlan, Lockdown
from toolfold_guest.shared.folder_removal import remove_tree
from toolfold_guest.stdlib_names import duplicate, write

CONTROL_FD: Final = lockdown.SOCKET_FD
MAX_MESSAGE_BYTES: Final = 1 << 20
MAX_FDS: Final = 250
READY: Final = b"R"
FAILED: Final = b"F"
_FEW_FILES: Final = 32
_MOST_PLANS: Final = 16
# The C library's 8 MiB per thread would use up a guest's memory limit with a few dozen threads.
_THREAD_STACK_BYTES: Final = 2 * 1024 * 1024


def main() -> NoReturn:
    control = socket.socket(fileno=CONTROL_FD)
    try:
        kernel_calls.die_with_parent()
        server = _Server(control, json.loads(control.recv(MAX_MESSAGE_BYTES)))
    # Whatever it is, the host must hear of it in one line instead of silence.
    except BaseException as error:  # noqa: BLE001
        _fail(control, error)
    server.serve()


def _fail(control: socket.socket, error: BaseException) -> NoReturn:
    reason = (
        str(error) if isinstance(error, kernel_calls.JailError) else f"the fork server did not start: {describe(error)}"
    )
    with contextlib.suppress(OSError):  # the host may be gone
        control.send(json.dumps({"failed": reason}).encode())
    os._exit(1)


def describe(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"{type(error).__name__}: {error}".splitlines()[0]


class _Server:
    def __init__(self, control: socket.socket, order: dict[str, Any]) -> None:
        self._control = control
        self._limits: dict[str, Any] = order["limits"]
        self._folder: str = order["folder"]
        self._lockdown = Lockdown(order)
        self._has_pid_namespaces = "pid" in order["layers"]
        self._pid_namespace = os.open("self/ns/pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=PROC_FD)
        self._ids: dict[int, int] = {}
        """Guest id by process id."""
        self._forgotten: set[int] = set()
        """Guests that the host let go of while they were still dying: their folders go with them."""
        self._plans: dict[tuple[Any, ...], ForkPlan] = {}
        """By the limits that they are for."""
        # Before any library is loaded: some read the environment and the path once, on import.
        place = len(sys.path)
        _clean_interpreter(order["sys_path"])
        # Before our own loop: what a guest touches then lies together, and less is copied.
        if order["runs_programs"]:
            preload.preload_stdlib()
        toolfold_guest_preload.prepare(order["set_paths"], order["own_set"], place)
        is_single = order["modules"] is not None
        preload.preload_modules(order["modules"] or ())
        loop = importlib.import_module(order["loop_module"])
        loop.prepare(order["library_set"])
        # Found once: see `aliases`. A guest that never waits has nothing to gain by a rehearsal.
        self._rehearse, self._main = _do_nothing if is_single else loop.rehearse, loop.main
        # Blocked and read from a descriptor: a handler could run in the middle of a fork.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        self._children = kernel_calls.signal_fd(signal.SIGCHLD)
        # A collection writes to the header of every object it looks at, and a guest would copy all those pages.
        gc.collect()
        gc.freeze()
        gc.disable()
        # After the last import and before the first fork: what comes later is not in it.
        if not is_single:
            merge_mappings()
            collapse()
        # What a guest starts with; its memory limit counts above that, so libraries cost a program nothing.
        self._vm_bytes = _vm_bytes()
        self._resident_bytes = _resident_bytes(resource.getrusage(resource.RUSAGE_SELF))
        # Last: under the filter neither libraries nor the jail could be set up.
        self._lockdown.confine_zygote()

    def serve(self) -> NoReturn:
        poll = select.poll()
        poll.register(CONTROL_FD, select.POLLIN)
        poll.register(self._children, select.POLLIN)
        self._send({"ready": True})
        while True:
            for fd, _ in poll.poll():
                if fd == CONTROL_FD:
                    self._obey()
                else:
                    self._reap()

    def _obey(self) -> None:
        text, fds, _, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, MAX_FDS)
        if not text:
            self._end()
        order = json.loads(text)
        # First what is over: its folder and its number are free then.
        for guest in order.get("forget", ()):
            self._forget(guest)
        if "spawn" in order:
            self._spawn(order["spawn"], fds, order.get("limits") or self._limits)

    def _spawn(self, guests: list[int], fds: list[int], limits: dict[str, Any]) -> None:
        forked: list[int] = []
        pidfds: list[int] = []
        refused: list[tuple[int, str]] = []
        for guest, fd in zip(guests, fds, strict=True):
            try:
                process = self._fork(guest, fd, limits)
                self._ids[process] = guest
                # Before anything else can reap it: from then on the number may be another's.
                pidfds.append(os.pidfd_open(process))
                forked.append(guest)
            except OSError as error:
                refused.append((guest, describe(error)))
            os.close(fd)
        self._send({"forked": forked, "refused": refused}, pidfds)
        for pidfd in pidfds:
            os.close(pidfd)

    def _fork(self, guest: int, fd: int, limits: dict[str, Any]) -> int:
        folder = ""
        if not self._lockdown.has_tree:
            folder = f"{self._folder}/{guest}"
            os.mkdir(folder, 0o700)
        plan = self._plan(limits, folder)
        # It holds for the next child only, which becomes the first process of it.
        if self._has_pid_namespaces:
            kernel_calls.unshare(kernel_calls.NEWPID)
        process: int = kernel_calls.fork()
        if process == 0:
            self._become_guest(fd, plan, folder)
        # Back again: the next guest needs a namespace of its own, and the helpers none.
        if self._has_pid_namespaces:
            kernel_calls.setns(self._pid_namespace, kernel_calls.NEWPID)
        if process < 0:
            raise OSError(0, "fork refused: too many processes, or too little memory")
        return process

    def _plan(self, limits: dict[str, Any], folder: str) -> ForkPlan:
        # A folder of its own is in the steps, so nobody else can take them.
        if folder:
            return self._lockdown.plan(limits, self._vm_bytes, folder)
        key = tuple(limits.values())
        plan = self._plans.get(key)
        if plan is None:
            # Few servers have more than one; whoever asks for ever new ones must not fill this process.
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._lockdown.plan(limits, self._vm_bytes, folder)
        return plan

    def _become_guest(self, fd: int, plan: ForkPlan, folder: str) -> NoReturn:
        try:
            duplicate(fd, CONTROL_FD)  # the control socket ends here
            # The order is the point: own namespaces, then the host gets its descriptor, then pages are touched
            # while that is still allowed, and only then is the door closed.
            take(plan[0])
            if folder:
                self._lockdown.adapt(folder)
            self._rehearse()
            take(plan[1])
            if not self._has_pid_namespaces:
                self._lockdown.seal_with_own_id()
            write(CONTROL_FD, READY)
            self._main(CONTROL_FD)
        # The parent's code must never go on in the child, whatever happens.
        except BaseException as error:  # noqa: BLE001
            os.write(CONTROL_FD, FAILED + describe(error).encode())
        finally:
            os._exit(98)

    def _reap(self) -> None:
        # One notice may stand for many children: the kernel merges equal signals.
        os.read(self._children, 4096)
        ended: list[tuple[int, int, float, int]] = []
        while True:
            try:
                process, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not process:
                break
            guest = self._ids.pop(process, None)
            if guest is not None:
                grown_bytes = max(0, _resident_bytes(used) - self._resident_bytes)
                ended.append((guest, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, grown_bytes))
                if guest in self._forgotten:
                    self._forget(guest)
        if ended:
            self._send({"ended": ended})

    def _forget(self, guest: int) -> None:
        if guest in self._ids.values():
            self._forgotten.add(guest)
            return
        self._forgotten.discard(guest)
        if not self._lockdown.has_tree:
            _remove(f"{self._folder}/{guest}")

    def _send(self, message: dict[str, Any], fds: list[int] | None = None) -> None:
        try:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            self._control.sendmsg([json.dumps(message).encode()], ancillary)
        except OSError:
            self._end()

    def _end(self) -> NoReturn:
        for process in self._ids:
            os.kill(process, signal.SIGKILL)
        os._exit(0)


def _do_nothing() -> None:
    pass


def _remove(folder: str) -> None:
    """A few files at once, more in a process of its own: other programs must not wait for it."""
    if _is_small(folder):
        remove_tree(folder)
    elif kernel_calls.fork() == 0:
        try:
            os.close(CONTROL_FD)
            # The builder of the jail removes what is left.
            kernel_calls.die_with_parent()
            remove_tree(folder)
        finally:
            os._exit(0)


def _is_small(folder: str) -> bool:
    remaining, waiting = _FEW_FILES, [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                remaining -= 1
                if remaining < 0:
                    return False
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return True


def _clean_interpreter(sys_path: list[str]) -> None:
    """Started with -S and a few variables of ours; programs find a usual interpreter."""
    for name in [name for name in os.environ if name.startswith(("PYTHON", "LD_", "MALLOC_"))]:
        del os.environ[name]
    sys.path.extend(sys_path)
    sys.argv[:] = [""]
    site.setquit()
    site.setcopyright()
    site.sethelper()
    threading.stack_size(_THREAD_STACK_BYTES)


def _resident_bytes(used: resource.struct_rusage) -> int:
    return used.ru_maxrss * 1024


def _vm_bytes() -> int:
    with open(os.open("self/statm", os.O_RDONLY, dir_fd=PROC_FD), "rb") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


# ----------------------------------------------------------------------------------------------------
# Less to copy in a fork: fewer mappings, and huge pages.
#
# The loader leaves five mappings of each library: read-only, code, read-only, relocated, data. Without the differences
# in rights the kernel merges them into two, and a fork with its exit handles 105 mappings instead of 236. No wall goes:
# a program can change the rights of its own pages anyway, and the jail does not rely on them.
#
# Of a huge page a fork copies one entry instead of 512. A guest that writes into one gets its own copy of 4 KiB, as
# before. Takes a fifth off each fork with pandas loaded. A kernel that cannot do it (before 6.1) leaves all as it is.

_HUGE_BYTES: Final = 2 * 1024 * 1024


def merge_mappings() -> None:
    """Call it when everything is loaded and before the first fork."""
    mappings = _mappings()
    for (start, end, rights, path), after in zip(mappings, [*mappings[1:], (0, 0, "", "")], strict=True):
        if rights == "r--p" and (path.endswith(".so") or ".so." in path):
            is_relocated = after == (end, after[1], "rw-p", path)
            kernel_calls.set_rights(start, end - start, kernel_calls.WRITE if is_relocated else kernel_calls.EXECUTE)


def collapse() -> None:
    """Call it when everything is loaded and before the first fork."""
    for start, end, rights, path in _mappings():
        # Pages of files are shared by all processes anyway, and cannot be collapsed.
        if path in ("", "[heap]") and rights == "rw-p":
            # Huge pages begin at their own multiples; what lies before the first and after the last stays as it is.
            first = -(-start // _HUGE_BYTES) * _HUGE_BYTES
            for address in range(first, end - _HUGE_BYTES + 1, _HUGE_BYTES):
                kernel_calls.collapse_pages(address, _HUGE_BYTES)


def _mappings() -> list[tuple[int, int, str, str]]:
    """Start, end, rights and path of each."""
    with open(os.open("self/maps", os.O_RDONLY, dir_fd=PROC_FD), encoding="utf-8", errors="replace") as file:
        lines = [line.rstrip("\n").split(None, 5) for line in file]
    ranges = [tuple(int(number, 16) for number in words[0].split("-")) for words in lines]
    return [(start, end, words[1], "".join(words[5:])) for (start, end), words in zip(ranges, lines, strict=True)]
