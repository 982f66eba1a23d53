"""A head that is away for longer than Ray's patience: the process that Ray ends is not the host's."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolfold import EngineCrashed, EngineUnavailable, Runtime

PRETENDED_RAY = Path(__file__).with_name("pretended_ray")


class Head:
    """Away while its file is there; each process that Ray ended meanwhile is a line of it."""

    def __init__(self, file: Path, address: str) -> None:
        self._file = file
        self.address = address

    async def go_away(self) -> None:
        """Until a process was ended for it."""
        self._file.touch()
        while not self._file.read_text():
            await asyncio.sleep(0.01)

    def come_back(self) -> None:
        self._file.unlink()


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Head]:
    monkeypatch.syspath_prepend(PRETENDED_RAY)
    monkeypatch.setenv("PRETENDED_HEAD", str(tmp_path / "away"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Head(tmp_path / "away", f"127.0.0.1:{server.getsockname()[1]}")


async def test_a_program_whose_head_is_away_goes_on_when_it_is_back_and_makes_no_call_twice(head: Head) -> None:
    calls: list[int] = []
    is_called, goes_on = asyncio.Event(), asyncio.Event()

    async def save(n: int) -> int:
        calls.append(n)
        is_called.set()
        await goes_on.wait()
        return n

    async with Runtime([save], engine="ray", engine_options={"address": head.address}) as runtime:
        running = asyncio.create_task(runtime.run("[await save(n=1), await save(n=2)]"))
        await is_called.wait()
        await head.go_away()
        goes_on.set()
        head.come_back()
        outcome = await running

    assert (outcome.status, outcome.value, calls) == ("finished", [1, 2], [1, 2])


async def test_while_the_head_is_away_programs_fail_and_the_host_lives_on(head: Head) -> None:
    async def wait() -> None:
        is_called.set()
        await asyncio.Event().wait()

    is_called = asyncio.Event()
    options = {"address": head.address, "wait_seconds": 0.1}
    async with Runtime([wait], engine="ray", engine_options=options) as runtime:
        running = asyncio.create_task(runtime.run("await wait()"))
        await is_called.wait()
        await head.go_away()
        with pytest.raises(EngineCrashed) as crashed:
            await running
        with pytest.raises(EngineUnavailable) as unavailable:
            await runtime.run("1 + 1")
        head.come_back()
        while (value := await _value(runtime)) is None:
            pass

    text = "no node of the Ray cluster can be used, for 0.1 s; see 'ray status'"
    assert (str(crashed.value), str(unavailable.value), value) == (text, text, 2)


async def test_the_process_that_is_connected_to_ray_ends_with_the_engine(head: Head) -> None:
    async with Runtime(engine="ray", engine_options={"address": head.address}) as runtime:
        outcome = await runtime.run("1 + 1")
        during = _children()

    assert (outcome.value, len(during), _children()) == (2, 1, [])


async def _value(runtime: Runtime) -> object:
    try:
        return (await runtime.run("1 + 1")).value
    except EngineUnavailable:
        return None


def _children() -> list[str]:
    """Processes of ours that are connected to Ray."""
    found = []
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        found += [line] if "toolfold.engines.ray.driver_process" in line else []
    return found
