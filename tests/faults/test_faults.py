"""A short run of the checker; `make test-faults` is the long one."""

from pathlib import Path

import pytest

from tests.faults.__main__ import check
from tests.faults.targets import running_target


@pytest.mark.long
async def test_a_short_run_under_kills_of_server_zygote_and_guests_finds_nothing(tmp_path: Path) -> None:
    with running_target("sqlite", tmp_path, seed=1) as target:
        assert target is not None
        report = await check(target, 10, clients=2, seed=1)

    assert report.violations == []
    assert report.ends["completed"] > 0
    assert report.faults.total() > 0
