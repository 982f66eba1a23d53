from pathlib import Path

import pytest
from inline_snapshot import snapshot

from examples.pydantic_ai_approvals import main


@pytest.mark.long
async def test_the_example_approves_small_refunds_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await main(tmp_path)

    assert capsys.readouterr().out == snapshot("""\
approved refund {'order': 'May 4', 'amount': 80}
approved refund {'order': 'May 5', 'amount': 100}
denied refund {'order': 'May 6', 'amount': 120}
denied refund {'order': 'May 11', 'amount': 220}
denied refund {'order': 'May 12', 'amount': 240}
Done: {'printed': '5 of 12 parcels were late', 'result': ['80 paid back for order May 4', '100 paid back for order May 5', "'refund' was denied: ask the manager", "'refund' was denied: ask the manager", "'refund' was denied: ask the manager"]}
""")
