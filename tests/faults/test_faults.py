"""Short runs of the checker; `make test-faults` has the long ones."""

from pathlib import Path

import pytest

from tests.faults.__main__ import Workers, check
from tests.faults.clients import Client, Uploader
from tests.faults.runner import Runner
from tests.faults.servers import TOOLS
from tests.faults.targets import TargetKind, running_target


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_a_short_run_under_faults_of_every_kind_finds_nothing(
    kind: TargetKind, tmp_path: Path, unproven: list[str]
) -> None:
    with running_target(kind, tmp_path, seed=1) as target:
        if target is None:
            unproven.append("faults: no redis-server is available here")
            pytest.skip("NOT PROVEN: no redis-server is available here")
        runners = [Runner(0, tmp_path / "runs", TOOLS)] if kind == "sqlite" else []
        workers = Workers([Client(0, target.bases), Client(1, target.bases)], [Uploader(0, target.bases)], runners)
        report = await check(target, workers, 8, seed=1)

    assert report.violations == []
    assert report.ends["completed"] > 0
    assert report.faults.total() > 0
