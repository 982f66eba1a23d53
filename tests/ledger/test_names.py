"""Names of runs: kept by every ledger, filtered by, and checked where a program starts."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.made_up import begun, outcome
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401
from toolfold import Runtime, UsageError
from toolfold.interfaces.http.request_models import NAME_HEADERS, names_in
from toolfold.ledger.base import ExecutionFilter, Ledger
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.redis.store import RedisLedger
from toolfold.ledger.sqlite.change_key import rekey
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import RunNames

pytestmark = pytest.mark.long

KEY, OTHER_KEY = "correct horse battery staple", "another long passphrase"
NAMES: dict[str, Any] = {
    "title": "Weekly report", "tags": ("vip", "eu"), "user": "ann", "conversation": "c-1", "model": "model-1",
}  # fmt: skip
EXPECTED = {
    ExecutionFilter(tag="vip"): "ba", ExecutionFilter(tag="eu", user="ann"): "a", ExecutionFilter(conversation="c-1"): "a",
    ExecutionFilter(model="model-1", tag="vip"): "a", ExecutionFilter(tag="none"): "", ExecutionFilter(user="bob"): "b",
    ExecutionFilter(tag="vip", tenant="t"): "b",
}  # fmt: skip


@pytest.fixture(params=["memory", "sqlite", "sealed", "redis", "redis sealed"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    kind, key = request.param, KEY if "sealed" in request.param else None
    if kind == "memory":
        yield MemoryLedger()
        return
    if kind.startswith("redis"):
        server: RedisServer = request.getfixturevalue("redis_server")
        opened: Any = RedisLedger(server.url, key=key)
    else:
        opened = SqliteLedger(tmp_path / "ledger.sqlite", key=key)
    yield opened
    await opened.close()


async def write(ledger: Ledger) -> None:
    named: tuple[tuple[str, dict[str, Any]], ...] = (
        ("a", NAMES),
        ("b", {"tags": ("vip",), "user": "bob", "tenant": "t"}),
        ("c", {}),
    )
    for number, (name, names) in enumerate(named):
        ledger.begin(begun(name, began_at=1000.0 + number, **names))
        await ledger.finish(name, outcome(name), wait=True)


async def test_a_run_is_found_by_its_names_in_every_ledger(ledger: Ledger) -> None:
    await write(ledger)

    rows = {row.execution_id: row for row in await ledger.search(ExecutionFilter())}
    start = await ledger.load("a")
    found = {query: "".join(row.execution_id for row in await ledger.search(query)) for query in EXPECTED}
    pages = await ledger.search(ExecutionFilter(tag="vip"), limit=1, before="b")

    assert found == EXPECTED
    assert {name: getattr(rows["a"], name) for name in NAMES} == NAMES
    assert start is not None
    assert {name: getattr(start.start_record, name) for name in NAMES} == NAMES
    assert [row.execution_id for row in pages] == ["a"]


async def test_names_of_a_forgotten_run_find_nothing(ledger: Ledger) -> None:
    await write(ledger)

    await ledger.delete("a")

    assert [row.execution_id for row in await ledger.search(ExecutionFilter(tag="vip"))] == ["b"]
    assert not await ledger.search(ExecutionFilter(conversation="c-1"))


async def test_names_are_sealed_and_found_with_a_new_key(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path, key=KEY)
    await write(ledger)
    await ledger.close()
    written = path.read_bytes()

    rekey(path, KEY, OTHER_KEY)
    reopened = SqliteLedger(path, key=OTHER_KEY)
    found = await reopened.search(ExecutionFilter(tag="eu"))
    await reopened.close()

    assert [row.title for row in found] == ["Weekly report"]
    assert not any(text in written for text in (b"Weekly", b"ann", b"model-1"))


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ({"title": "a\nb"}, r"title must be text of at most 200 characters in one line, got 'a\nb'"),
        ({"tags": ["x"] * 21}, "tags must be a list of at most 20 texts"),
        ({"tags": "vip"}, "tags must be a list of at most 20 texts, got 'vip'"),
        ({"tags": ["\ud800"]}, "a tag must be text of at most 200 characters in one line"),
        ({"user": {"a": 1}}, "user must be text of at most 200 characters in one line"),
        ({"model": "m" * 201}, "model must be text of at most 200 characters in one line"),
    ],
)
async def test_names_that_nobody_could_read_are_refused(names: Any, error: str) -> None:
    async with Runtime() as runtime:
        with pytest.raises(UsageError) as raised:
            await runtime.run("1", **names)

    assert str(raised.value).startswith(error)


def test_headers_and_metadata_carry_names() -> None:
    headers = {NAME_HEADERS["title"]: "Gr%C3%BC%C3%9Fe", NAME_HEADERS["tags"]: "vip, eu,", "host": "here"}
    meta = {"toolfold/user": "ann", "toolfold/tags": ["vip"], "user": "not this", "toolfold/else": 1}

    assert names_in(headers) == RunNames(title="Grüße", tags=("vip", "eu"))
    assert RunNames.within(meta, "toolfold/") == RunNames(user="ann", tags=["vip"])
