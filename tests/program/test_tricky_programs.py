"""Valid programs that look wrong, written by somebody who had not seen the check: none is rejected.

`tricky_programs.txt` has each with its output, which CPython gave; after `### =` it is JSON.
"""

import json
import re
from pathlib import Path

import pytest

from tests.program.tricky_tools import TOOLS
from toolfold import Runtime

TEXT = Path(__file__).with_name("tricky_programs.txt").read_text(encoding="utf-8")
_, *PARTS = re.split(r"^### (.+)\n", TEXT, flags=re.MULTILINE)
PROGRAMS = {
    name: (text, json.loads(stdout[2:]))
    for name, text, stdout in zip(PARTS[::4], PARTS[1::4], PARTS[2::4], strict=True)
}
SHARDS = 3


def test_there_are_more_than_800_tricky_programs() -> None:
    assert len(PROGRAMS) == len(PARTS) // 4 > 800


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.long
async def test_a_valid_program_prints_what_it_prints_in_python(shard: int) -> None:
    part = dict(list(PROGRAMS.items())[shard::SHARDS])
    async with Runtime(TOOLS) as runtime:
        outcomes = {name: await runtime.run(text) for name, (text, _) in part.items()}

    different = {
        name: (outcome.stdout, str(outcome.problem))
        for name, outcome in outcomes.items()
        if (outcome.status, outcome.stdout) != ("finished", part[name][1])
    }
    assert different == {}
