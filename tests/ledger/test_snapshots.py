"""The seal around snapshots: what opens, what is refused before anything of it is loaded, and whose key it is."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger import made_up
from toolfold.errors import SealBroken
from toolfold.ledger.encryption import (
    NoSeal,
    Pause,
    ProgramSnapshot,
    Seal,
    lock,
    own_key,
    seal_for_snapshots,
    seal_with,
    unlock,
)

SEAL = Seal(b"k" * 32)
PAUSE = Pause(execution_id="e1", tenant="acme", round=2, engine="monty 1.4.0/1")
SNAPSHOT = ProgramSnapshot(state=b"state" * 100, calls_made=3, stdout="so far\n")
KEPT = lock(SNAPSHOT, PAUSE, SEAL)
ADVICE = "it was not loaded: look after the ledger, and start the program anew"


@given(
    st.builds(
        ProgramSnapshot,
        state=st.binary(max_size=50),
        calls_made=made_up.counts,
        open_calls=made_up.tuples(made_up.calls),
        stdout=made_up.texts,
        stderr=made_up.texts,
        stdout_cut_bytes=made_up.counts,
        stderr_cut_bytes=made_up.counts,
        seconds_left=made_up.numbers,
    )
)
def test_a_snapshot_is_unlocked_as_it_was(snapshot: ProgramSnapshot) -> None:
    assert unlock(lock(snapshot, PAUSE, SEAL), PAUSE, SEAL) == snapshot


def test_nothing_of_a_snapshot_can_be_read_without_the_key() -> None:
    assert b"state" not in KEPT
    assert b"so far" not in KEPT


@pytest.mark.parametrize(
    ("pause", "why"),
    [
        (replace(PAUSE, execution_id="e2"), "the snapshot kept for execution 'e2' is of execution 'e1'"),
        (replace(PAUSE, tenant="other"), "the snapshot kept for execution 'e1' is of another tenant"),
        (
            replace(PAUSE, round=3),
            "the snapshot kept for execution 'e1' is of pause 2, and the record is at pause 3",
        ),
    ],
    ids=["execution", "tenant", "round"],
)
def test_a_snapshot_of_another_pause_is_refused(pause: Pause, why: str) -> None:
    with pytest.raises(SealBroken) as refused:
        unlock(KEPT, pause, SEAL)

    assert str(refused.value) == f"{why}; {ADVICE}"


@pytest.mark.parametrize("field", ["execution_id", "tenant", "round"])
def test_a_label_that_was_rewritten_does_not_open(field: str) -> None:
    label, sealed = msgspec.msgpack.decode(KEPT)
    place = ["format", "key_id", "engine", "execution_id", "tenant", "round"].index(field)
    wanted = replace(PAUSE, **{field: 7 if field == "round" else "other"})
    label[place] = getattr(wanted, field)

    with pytest.raises(SealBroken) as refused:
        unlock(msgspec.msgpack.encode([label, sealed]), wanted, SEAL)

    assert str(refused.value) == (
        f"the snapshot kept for execution {wanted.execution_id!r} was changed since it was sealed; {ADVICE}"
    )


@given(st.integers(0, len(KEPT) - 1), st.integers(1, 255))
def test_no_changed_byte_is_ever_loaded(place: int, flip: int) -> None:
    changed = bytearray(KEPT)
    changed[place] ^= flip

    try:
        found = unlock(bytes(changed), PAUSE, SEAL)
    except SealBroken:
        return

    # The key's or the engine's name was hit: not ours to open, so the program is replayed.
    assert found is None


@given(st.integers(0, len(KEPT) - 1))
def test_a_snapshot_that_was_cut_off_is_refused(length: int) -> None:
    with pytest.raises(SealBroken, match="was changed since it was sealed"):
        unlock(KEPT[:length], PAUSE, SEAL)


def test_a_seal_that_is_empty_is_refused() -> None:
    label, _ = msgspec.msgpack.decode(KEPT)

    with pytest.raises(SealBroken, match="was changed since it was sealed"):
        unlock(msgspec.msgpack.encode([label, b""]), PAUSE, SEAL)


def test_what_another_key_or_engine_made_is_left_alone() -> None:
    assert unlock(KEPT, PAUSE, Seal(b"o" * 32)) is None
    assert unlock(KEPT, replace(PAUSE, engine="monty 1.5.0/1"), SEAL) is None


def test_a_ledger_with_a_key_seals_snapshots_with_a_key_of_their_own() -> None:
    of_ledger = seal_with(b"k" * 32, b"")

    first, second = seal_for_snapshots(of_ledger), seal_for_snapshots(of_ledger)

    assert first is not None
    assert second is not None
    assert first.key_id == second.key_id != of_ledger.key_id


def test_a_ledger_without_a_key_seals_with_a_key_of_the_user_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    keys = {own_key() for _ in range(3)}
    seal = seal_for_snapshots(NoSeal())

    path = tmp_path / "toolfold" / "snapshot.key"
    assert keys == {path.read_bytes()}
    assert (len(path.read_bytes()), stat.S_IMODE(path.stat().st_mode)) == (32, 0o600)
    assert os.listdir(path.parent) == ["snapshot.key"]
    assert seal is not None
    assert seal.key_id == Seal(path.read_bytes()).key_id


@pytest.mark.parametrize("harm", ["readable", "short", "link", "no folder"])
def test_a_key_that_is_not_to_be_trusted_is_not_used(
    harm: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own_key()
    path = tmp_path / "toolfold" / "snapshot.key"
    match harm:
        case "readable":
            path.chmod(0o644)
        case "short":
            path.write_bytes(b"short")
        case "link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        case _:
            monkeypatch.setenv("XDG_STATE_HOME", str(path))

    assert own_key() is None
    assert seal_for_snapshots(NoSeal()) is None
    assert caplog.messages[0].startswith("paused programs are replayed, not restored from snapshots: no key (")
