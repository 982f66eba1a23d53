"""What lies on the host for attacks to reach: files, a process, listeners, a secret. Tells what was touched."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.escapes_support.numbers import NUMBERS
from tests.ports import held_port

_IPC_CREAT, _IPC_RMID, _SHARED_BYTES = 0o1000, 0, 4096
_DIAL_EVERY_SECONDS: Final = 0.05
_PRELUDE: Final = Path(__file__).with_name("prelude.py")


class Bait:
    """One per session of attacks; a context manager."""

    def __init__(self) -> None:
        self.secret = f"canary-host-{secrets.token_hex(8)}"
        self.folder = Path(tempfile.mkdtemp(prefix="escape-bait-"))
        self.visits: set[str] = set()
        """Which listeners a guest got through to."""
        self._stack = contextlib.ExitStack()
        self._is_over = threading.Event()
        self._victim: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Bait:
        self._lay_files()
        os.environ["TOOLFOLD_CANARY"] = self.secret
        self._stack.callback(os.environ.pop, "TOOLFOLD_CANARY", None)
        self._listen()
        self._share_memory()
        self._victim = self._start_victim()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()
        self._end_victim()
        self._stack.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def refresh(self) -> None:
        """As new, for the next attack."""
        self.visits.clear()
        if self._victim is None or self._victim.poll() is not None:
            self._end_victim()
            self._victim = self._start_victim()
        for path in (self.folder / "open").iterdir():
            path.unlink()
        witness = self.folder / "witness"
        witness.unlink(missing_ok=True)
        witness.write_text("untouched")
        witness.chmod(0o666)
        os.utime(witness, (1_000_000_000, 1_000_000_000))

    @property
    def witness_is_touched(self) -> bool:
        """The host's file has other content, mode, owner or time."""
        path = self.folder / "witness"
        found = path.stat()
        usual = (0o100666, os.getuid(), 1_000_000_000)
        return (found.st_mode, found.st_uid, int(found.st_mtime)) != usual or path.read_text() != "untouched"

    @property
    def victim_is_hurt(self) -> bool:
        """The host's process was ended or stopped."""
        assert self._victim is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._victim.wait(0.05)
        return self._victim.returncode is not None

    def prelude(self, *, is_control: bool) -> str:
        """Constants and helpers that stand before every attack's text."""
        assert self._victim is not None
        constants: dict[str, Any] = {
            "IS_CONTROL": is_control,
            "HOST_PID": self._victim.pid,
            "HOST_FOLDER": str(self.folder),
            "SECRET_FILE": str(self.folder / "secret"),
            "HOST_PACKAGE_FILE": msgspec.__file__,
            "WITNESS_FILE": str(self.folder / "witness"),
            "OPEN_FOLDER": str(self.folder / "open"),
            "TCP_PORT": self._ports["tcp"],
            "TCP6_PORT": self._ports.get("tcp6", 0),
            "UDP_PORT": self._ports["udp"],
            "DIAL_PORT": self._ports["dialled"],
            "UNIX_PATH": str(self.folder / "socket"),
            "DATAGRAM_PATH": str(self.folder / "datagrams"),
            "ABSTRACT_NAME": f"\0{self.secret[-8:]}",
            "SHARED_KEY": self._key,
            "HOST_NAME": platform.node(),
            "HOST_USER": os.getuid(),
            # Reversed, so that the program's own text is no find.
            "HOST_PATHS_REVERSED": sorted({path[::-1] for path in _own_paths()}),
            "NR": NUMBERS.get(platform.machine(), {}),
        }
        lines = [f"{name} = {value!r}" for name, value in constants.items()]
        return "\n".join([*lines, _PRELUDE.read_text(encoding="utf-8"), ""])

    def _lay_files(self) -> None:
        self.folder.chmod(0o755)
        (self.folder / "secret").write_text(self.secret)
        (self.folder / "open").mkdir()
        (self.folder / "open").chmod(0o777)
        (self.folder / "witness").write_text("")

    def _start_victim(self) -> subprocess.Popen[bytes]:
        # `:` keeps the shell itself as the process; the secret is in its arguments and its environment.
        return subprocess.Popen(["/bin/sh", "-c", "read line; :", self.secret], stdin=subprocess.PIPE)

    def _end_victim(self) -> None:
        if self._victim is not None:
            assert self._victim.stdin is not None
            self._victim.stdin.close()
            self._victim.kill()
            self._victim.wait()

    def _listen(self) -> None:
        unix, loopback = socket.AF_UNIX, ("127.0.0.1", 0)
        self._ports: dict[str, int] = {}
        self._serve("tcp", socket.AF_INET, loopback)
        self._serve("unix path", unix, str(self.folder / "socket"))
        self._serve("unix abstract", unix, f"\0{self.secret[-8:]}")
        with contextlib.suppress(OSError):  # a host without IPv6
            self._serve("tcp6", socket.AF_INET6, ("::1", 0))
        self._hear_at("udp", socket.AF_INET, loopback)
        self._hear_at("datagram path", unix, str(self.folder / "datagrams"))
        self._hear_at("datagram abstract", unix, f"\0{self.secret[-8:]}d")
        self._ports["dialled"] = self._stack.enter_context(held_port())
        self._in_background(self._dial)

    def _serve(self, name: str, family: int, address: Any) -> None:
        listener = self._stack.enter_context(socket.socket(family))
        listener.bind(address)
        if isinstance(address, str) and not address.startswith("\0"):
            os.chmod(address, 0o777)
        listener.listen()
        if not isinstance(address, str):
            self._ports[name] = listener.getsockname()[1]
        self._in_background(self._accept, name, listener)

    def _hear_at(self, name: str, family: int, address: Any) -> None:
        sock = self._stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        sock.bind(address)
        if isinstance(address, str):
            if not address.startswith("\0"):
                os.chmod(address, 0o777)
        else:
            self._ports[name] = sock.getsockname()[1]
        self._in_background(self._hear, name, sock)

    def _in_background(self, target: Any, *arguments: Any) -> None:
        for thing in arguments:
            if isinstance(thing, socket.socket):
                thing.settimeout(0.1)
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        self._stack.callback(thread.join)

    def _accept(self, name: str, listener: socket.socket) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(OSError):
                listener.accept()[0].close()
                self.visits.add(name)

    def _hear(self, name: str, sock: socket.socket) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(OSError):
                sock.recv(100)
                self.visits.add(name)

    def _dial(self) -> None:
        while not self._is_over.wait(_DIAL_EVERY_SECONDS):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._ports["dialled"]), 0.5):
                self.visits.add("dialled")

    def _share_memory(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        self._key = secrets.randbelow(1 << 30) + 1
        segment = libc.shmget(self._key, _SHARED_BYTES, _IPC_CREAT | 0o666)
        if segment < 0:
            return  # a kernel without System V memory: the attack's control will say so
        address = libc.shmat(segment, None, 0)
        ctypes.memmove(address, self.secret.encode(), len(self.secret))
        libc.shmdt(ctypes.c_void_p(address))
        self._stack.callback(libc.shmctl, segment, _IPC_RMID, None)


def _own_paths() -> list[str]:
    paths = [os.path.realpath(__file__).partition("/tests/")[0], os.path.realpath(sys.prefix), os.getcwd()]
    return [path for path in paths if path.count("/") >= 2 and not path.startswith("/usr/")]
