"""Short runs of the checker; `make test NAME=faults` has the long ones."""

from pathlib import Path

import pytest

from tests.faults.__main__ import Everyone, all_faults, check, chosen, users_of
from tests.faults.clients import Client, Uploader
from tests.faults.targets import TargetKind, running_target


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_a_short_run_under_faults_of_every_kind_finds_nothing(
    kind: TargetKind, tmp_path: Path, unproven: list[str]
) -> None:
    wanted = chosen(kind, (), ())
    with running_target(kind, tmp_path, seed=1) as target, users_of(kind, tmp_path, wanted) as users:
        if target is None:
            unproven.append("faults: no redis-server is available here")
            pytest.skip("NOT PROVEN: no redis-server is available here")
        everyone = Everyone([Client(0, target.bases), Client(1, target.bases)], [Uploader(0, target.bases)], users)
        report = await check(target, everyone, 8, seed=1)

    assert list(map(str, report.violations)) == []
    assert report.ends["completed"] > 0
    assert report.faults.total() > 0


def test_faults_are_chosen_by_a_part_of_their_names() -> None:
    everything = frozenset(all_faults("sqlite"))

    assert chosen("sqlite", (), ()) == everything
    assert chosen("sqlite", ("TAKEOVER",), ()) == {"takeover by 'runs wait --cancel'", "takeover by resume"}
    assert chosen("sqlite", ("takeover",), ("resume",)) == {"takeover by 'runs wait --cancel'"}
    assert chosen("sqlite", (), ("clock",)) == {name for name in everything if "clock" not in name}
    with pytest.raises(ValueError, match="no fault with 'thunder' in its name; there are: kill -9 of a server, "):
        chosen("sqlite", ("thunder",), ())
