"""The engine of `examples/engine`: installed beside toolfold, it is an engine like any other."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installed import toy_engine
from toolfold import Runtime
from toolfold.config import parse_config
from toolfold.config.build import runtime_settings
from toolfold.errors import UsageError
from toolfold.interfaces.cli.app import run_command


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path) -> Iterator[None]:
    site = tmp_path / "site"
    site.mkdir()
    with toy_engine(site):
        yield


async def test_a_program_runs_on_an_engine_that_a_config_names() -> None:
    async with Runtime(settings=runtime_settings(parse_config("engine: toy\n"))) as runtime:
        outcome = await runtime.run("print(6 * 7)")

    assert (outcome.stdout, outcome.engine, outcome.isolation) == ("42\n", "toy", "namespace")
    assert "at most 8 programs run at the same time" in outcome.hints


async def test_it_runs_no_more_programs_at_once_than_its_option_says() -> None:
    running: list[int] = []
    most = 0

    async def enter(name: int) -> None:
        nonlocal most
        running.append(name)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.remove(name)

    async with Runtime([enter], engine="toy", engine_options={"at_once": 1}) as runtime:
        outcomes = await asyncio.gather(*[runtime.run(f"await enter({n})") for n in range(5)])

    assert [outcome.status for outcome in outcomes] == ["finished"] * 5
    assert most == 1


def test_the_command_line_takes_its_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('on', 1)")

    assert run_command(["run", str(program), "--engine", "toy", "--ledger", "memory"]) == 0

    assert capfd.readouterr().out == "on 1\n"


def test_its_options_are_checked_as_those_of_every_engine() -> None:
    with pytest.raises(UsageError) as caught:
        Runtime(engine="toy", engine_options={"warm": 1})

    assert str(caught.value) == "engine 'toy' has no option 'warm'; it has at_once, isolation"
