"""Programs that open a file of the host by its name."""

import pytest

from toolfold import File, Runtime
from toolfold.interfaces.cli.app import run_command
from toolfold.runtime import RuntimeSettings

SEEN = "is not in the data folder, which is empty; programs do not see files of the host"


@pytest.mark.parametrize(
    ("interface", "how"),
    [
        ("library", "; files=[File(name=..., data=...)] of run() puts one there"),
        ("cli", "; --file p.py puts it there"),
        ("http", "; name it under 'files' of the request, after an upload"),
        ("mcp", "; read it with a tool"),
        ("of another package", ""),
    ],
)
async def test_a_host_file_is_explained_in_the_words_of_the_door(interface: str, how: str) -> None:
    async with Runtime(settings=RuntimeSettings(interface=interface)) as runtime:
        outcome = await runtime.run("open('p.py').read()")

    assert outcome.hints == (f"'p.py' {SEEN}{how}",)


async def test_the_files_that_are_there_are_named() -> None:
    async with Runtime(settings=RuntimeSettings(interface="cli")) as runtime:
        files = [File(name=name, data=b"") for name in ("b.csv", "a.csv")]
        outcome = await runtime.run("from pathlib import Path\nPath('/home/me/p.py').read_text()", files=files)

    assert outcome.hints == (
        "'/home/me/p.py' is not in the data folder, which has a.csv, b.csv; programs do not see files of the host; "
        "--file /home/me/p.py puts it there",
    )


@pytest.mark.parametrize(
    "text", ["open('no/p.py', 'w')", "try:\n    open('p.py')\nexcept OSError:\n    pass", "1 / 0", "open('x', 'rb+')"]
)
async def test_nothing_is_said_where_a_file_is_written_or_the_program_expects_it(text: str) -> None:
    async with Runtime() as runtime:
        outcome = await runtime.run(text)

    assert outcome.hints == ()


def test_the_command_line_has_it_in_json(tmp_path, monkeypatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)

    code = run_command(["run", "--json", "--ledger", "memory", "-c", "open('p.py')"])

    assert code == 1
    assert f'"hints": ["\'p.py\' {SEEN}; --file p.py puts it there"]' in capfd.readouterr().out
