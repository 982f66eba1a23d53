"""A host for tests of the worker: speaks the slot protocol over one socket, with the real codec."""

import json
import os
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolfold.engines.wasm import artifacts
from toolfold.models import Reply, ToolSpec
from toolfold.protocol import codec

ROOT = Path(__file__).parents[3]
OPEN, FRAMES, FINISH, STOP = 1, 2, 3, 4
READY, GUEST_FRAMES, DIED, FILES = 129, 130, 131, 132
MIB = 1 << 20
LIMITS = {
    "memory_bytes": 256 * MIB, "cpu_seconds": 20, "data_bytes": 8 * MIB, "data_files": 50, "keep": False,
    "unread_bytes": 64 * MIB,
}  # fmt: skip
ECHO = ToolSpec(
    name="echo", python_name="echo", description="",
    input_schema={"type": "object", "properties": {"value": {}}, "required": ["value"]},
)  # fmt: skip
FACTS = codec.encode_facts([codec.tool_facts(ECHO)])


def cache_folder() -> Path:
    return Path(os.environ.get(artifacts.CACHE_VARIABLE) or ROOT / "build" / "wasm-cache")


def frames_of(text: str, **options: Any) -> bytes:
    start = {
        "preset": ("asyncio",) if "asyncio" in text else (), "seed": None, "report_waiting": False,
        "max_argument_bytes": 1 << 24, "max_value_bytes": 1 << 24, "files": [], "session": False, **options,
    }  # fmt: skip
    return codec.encode_program(text, FACTS) + codec.encode_start(start)


@dataclass
class Result:
    status: str = ""
    value: Any = None
    output: str = ""
    error: str = ""
    calls: int = 0
    died: dict[str, str] = field(default_factory=dict)


class Slot:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._rest = b""

    def send(self, kind: int, body: bytes = b"") -> None:
        self.sock.sendall(struct.pack("<IB", len(body), kind) + body)

    def order(self, kind: int, **content: Any) -> None:
        self.send(kind, json.dumps(content).encode())

    def receive(self) -> tuple[int, bytes]:
        while len(self._rest) < 5 or len(self._rest) < 5 + struct.unpack_from("<I", self._rest)[0]:
            data = self.sock.recv(1 << 20)
            if not data:
                raise EOFError
            self._rest += data
        size, kind = struct.unpack_from("<IB", self._rest)
        body, self._rest = self._rest[5 : 5 + size], self._rest[5 + size :]
        return kind, body

    def expect(self, kind: int) -> bytes:
        seen, body = self.receive()
        assert seen == kind, (seen, body[:300])
        return body

    def begin(self, text: str, limits: dict[str, Any] | None = None, **options: Any) -> None:
        self.send(OPEN, json.dumps({**LIMITS, **(limits or {})}).encode())
        self.send(FRAMES, frames_of(text, **options))

    def follow(self) -> Result:
        """Answer calls with their value until the program has ended or its guest has died."""
        result = Result()
        while True:
            kind, body = self.receive()
            if kind == DIED:
                result.died = json.loads(body)
                return result
            assert kind == GUEST_FRAMES, (kind, body[:300])
            position, replies = 0, []
            while position < len(body):
                (size,) = struct.unpack_from("<I", body, position)
                frame = codec.decode_frame(body[position + 4 : position + 4 + size])
                position += 4 + size
                result.output += getattr(frame, "stdout", "") + getattr(frame, "stderr", "")
                if isinstance(frame, codec.CallsFrame):
                    result.calls += len(frame.calls)
                    replies += [
                        codec.encode_reply(Reply(call_id=call.id, value=call.arguments["value"]))
                        for call in frame.calls
                    ]
                elif isinstance(frame, codec.EndedFrame):
                    result.status, result.value, result.error = frame.status, frame.value, frame.message or frame.error
                    return result
            if replies:
                self.send(FRAMES, b"".join(replies))

    def finish(self, *, keep: bool = False, files: bool = False) -> dict[str, bytes]:
        self.order(FINISH, keep=keep, files=files)
        return unpacked(self.expect(FILES)) if files else {}

    def run(self, text: str, limits: dict[str, Any] | None = None, **options: Any) -> Result:
        """A whole program in an instance of its own."""
        self.begin(text, limits, **options)
        result = self.follow()
        self.finish()
        self.expect(READY)
        return result


def unpacked(body: bytes) -> dict[str, bytes]:
    (count,) = struct.unpack_from("<I", body)
    position, files = 4, {}
    for _ in range(count):
        (size,) = struct.unpack_from("<I", body, position)
        name = body[position + 4 : position + 4 + size].decode()
        position += 4 + size
        (size,) = struct.unpack_from("<Q", body, position)
        files[name] = body[position + 8 : position + 8 + size]
        position += 8 + size
    assert position == len(body)
    return files


class Worker:
    """A worker process with so many slots; none of them is ready yet."""

    def __init__(self, slots: int = 1, library_set: str = "bare", cache: Path | None = None) -> None:
        pairs = [socket.socketpair() for _ in range(slots)]
        numbers = [theirs.fileno() for _, theirs in pairs]
        environment = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", "toolfold.engines.wasm.worker"],
            stdin=subprocess.PIPE, pass_fds=numbers, env=environment,
        )  # fmt: skip
        order = {"library_set": library_set, "slots": numbers, "cache": str(cache or cache_folder())}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        for _, theirs in pairs:
            theirs.close()
        self.slots = [Slot(ours) for ours, _ in pairs]

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(10)
        for slot in self.slots:
            slot.sock.close()
        return code


def main() -> None:
    """Figures of one worker: `python -m tests.engines.wasm.worker_client`."""
    artifacts.prepare(cache_folder(), print)
    started = time.perf_counter()
    for library_set, texts in (
        ("bare", ("pass", "print(1)", "await echo(value=1)")),
        (
            "data",
            (
                "pass",
                "import pandas as pd\npd.DataFrame({'a':[1,2,1],'b':[1.,2.,3.]}).groupby('a')['b'].sum().to_dict()",
            ),
        ),
    ):
        worker = Worker(1, library_set)
        (slot,) = worker.slots
        slot.expect(READY)
        print(library_set, "ready after", round((time.perf_counter() - started) * 1000), "ms")
        for text in texts:
            taken, cycles, cpu = [], [], []
            slot.run(text)
            for _ in range(40):
                before, used = time.perf_counter(), _cpu(worker.process.pid)
                slot.begin(text)
                result = slot.follow()
                taken.append(time.perf_counter() - before)
                slot.finish()
                slot.expect(READY)
                cycles.append(time.perf_counter() - before)
                cpu.append(_cpu(worker.process.pid) - used)
            taken.sort(), cycles.sort(), cpu.sort()
            print(
                f"{text[:30]!r:40} latency ms median {taken[20] * 1e3:.2f} best {taken[0] * 1e3:.2f}; until next is ready"
                f" {cycles[20] * 1e3:.2f} {cycles[0] * 1e3:.2f}; cpu {cpu[20]:.2f} {cpu[0]:.2f}",
                result.status,
                result.error[-80:],
            )
        for name, text in (
            ("sequential", "for i in range(1000): await echo(value=i)"),
            ("gathered", "r = await asyncio.gather(*[echo(value=i) for i in range(1000)])"),
        ):
            taken = []
            for _ in range(7):
                slot.begin(text)
                before = time.perf_counter()
                result = slot.follow()
                taken.append(time.perf_counter() - before)
                slot.finish()
                slot.expect(READY)
            taken.sort()
            print(
                f"{name:20} us a call median {taken[3] * 1e3:.0f} best {taken[0] * 1e3:.0f}",
                result.status,
                result.calls,
            )
        worker.close()
        started = time.perf_counter()


def _cpu(process: int) -> float:
    return (
        sum(
            int(Path(f"/proc/{process}/task/{task}/schedstat").read_text().split()[0])
            for task in os.listdir(f"/proc/{process}/task")
        )
        / 1e6
    )


if __name__ == "__main__":
    main()
