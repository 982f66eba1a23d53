"""Every program under `programs/` on every engine: whole outcomes, and each known difference written down.

`programs_support.py` says how a program tells what it does.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.programs_support import ENGINES, LIMITATIONS, facts, read, started
from toolfold.runtime import Runtime

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ENGINES)
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[Runtime]:
    async with started(request.param) as runtime:
        yield runtime


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
async def test_a_program_does_what_its_last_lines_say(path: Path, runtime: Runtime, engine_name: str) -> None:
    text, wanted = read(path)
    del wanted["hints"]

    seen = facts(await runtime.run(text))

    if engine_name in wanted.pop("limits"):
        assert seen != wanted, f"{engine_name} runs it now; take it out of docs/limitations/{engine_name}.md"
    else:
        assert seen == wanted


@pytest.fixture
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["runtime"])


@pytest.mark.parametrize("engine", ENGINES)
async def test_each_limit_of_an_engine_is_written_down_and_shown_by_a_program(engine: str) -> None:
    page = (LIMITATIONS / f"{engine}.md").read_text()
    named = set(re.findall(r"`programs/(\w+)\.py`", page))

    limited = {path.stem for path in PROGRAMS if engine in read(path)[1]["limits"]}

    assert named == limited


async def test_the_corpus_is_there() -> None:
    assert len(PROGRAMS) >= 70
