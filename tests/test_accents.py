"""Programs as models write them, in eleven accents: whole outcomes with their hints, on every engine.

Each folder under `accents/` is one kind of program, and holds ten or more in different shapes. A program that is no
Python as it stands is a text file. `programs_support.py` says how each tells what it does; here hints count, too.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.programs_support import ENGINES, LIMITATIONS, facts, read, started
from toolfold.engines.monty import MontyEngine
from toolfold.models import Media, Outcome
from toolfold.runtime import Runtime

HERE = Path(__file__).parent / "accents"
ACCENTS = {
    "arguments": "`None` where the default is null, `'5'` for an integer, `1` for a boolean",
    "endings": "files left open, `atexit`, finalizers, generators that are not at their end",
    "event_loops": "loops as objects: `run_until_complete`, `run_forever`, loops in threads",
    "imports": "`requests`, `subprocess` and their like, guarded, mocked or unused",
    "json_around": "a JSON object with the program in it",
    "known_before": "mistakes that are told before the first call, with the line and the fix",
    "monty_patterns": "regular expressions that Monty reads otherwise",
    "no_await": "tools called without `await`",
    "notebooks": "figures, `display`, magics, names that an earlier cell imported, `input()`",
    "values": "a value that is not JSON",
    "wrapped": "prose, fences, tags, prompts, smart quotes, invisible characters, entities",
}
TEN = 10
PROGRAMS = sorted(path for path in HERE.glob("*/*") if path.suffix in (".py", ".txt"))

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ENGINES)
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[Runtime]:
    async with started(request.param) as runtime:
        yield runtime


@pytest.fixture
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["runtime"])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_a_program_with_an_accent_does_what_its_last_lines_say(
    path: Path, runtime: Runtime, engine_name: str
) -> None:
    text, wanted = read(path)
    outcome = await runtime.run(text)

    seen = {**facts(outcome), "value": _without_pixels(outcome.value), "hints": _hints(outcome)}

    if engine_name in wanted.pop("limits"):
        assert seen != wanted, f"{engine_name} runs it now; take it out of docs/limitations/{engine_name}.md"
    else:
        assert seen == wanted


def _hints(outcome: Outcome) -> list[str]:
    return [hint for hint in outcome.hints if hint not in MontyEngine.notes]


def _without_pixels(value: Any) -> Any:
    return value.mime if isinstance(value, Media) else value


@pytest.mark.parametrize("engine", ENGINES)
async def test_each_accent_that_an_engine_does_not_understand_is_written_down(engine: str) -> None:
    page = (LIMITATIONS / f"{engine}.md").read_text()
    named = set(re.findall(r"`accents/(\w+/\w+\.\w+)`", page))
    for folder in re.findall(r"`accents/(\w+)/`", page):
        named.update(str(path.relative_to(HERE)) for path in PROGRAMS if path.parent.name == folder)

    limited = {str(path.relative_to(HERE)) for path in PROGRAMS if engine in read(path)[1]["limits"]}

    assert named == limited


async def test_there_are_ten_programs_or_more_of_each_accent() -> None:
    counts = {folder.name: len(list(folder.iterdir())) for folder in HERE.iterdir()}

    assert {name: count >= TEN for name, count in counts.items()} == dict.fromkeys(ACCENTS, True)
