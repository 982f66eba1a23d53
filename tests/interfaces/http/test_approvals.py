"""Calls that need a yes, where the server asks its clients: what a pause tells, what a client says, what is kept."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interfaces.http.conftest import serve
from tests.interfaces.http.talk import WEATHER, result, start
from toolfold import tool
from toolfold.interfaces.http import Settings
from toolfold.interfaces.http.settings import ApiKey
from toolfold.ledger.base import DecisionEntry, Ledger
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.tools.policy import Policy

LOOP = "for n in range(50):\n    await write(row=n)\nprint('done')"
SETTINGS = Settings(max_rounds=60)


class Table:
    """A tool of the server's that needs a yes."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.ledger: Ledger = MemoryLedger()

    def serve(self, folder: Path, settings: Settings = SETTINGS, **options: Any) -> Any:
        @tool
        def write(row: int) -> int:
            """Write a row."""
            self.rows.append(row)
            return row

        options = {"policy": Policy(ask=["write"]), **options}
        return serve(settings, folder, ledger=self.ledger, tools=[write], **options)

    async def rights(self) -> list[DecisionEntry]:
        """Of the latest program, call by call."""
        latest = (await self.ledger.list(limit=1))[0]
        history = await self.ledger.load(latest.execution_id)
        assert history is not None
        return [entry for entry in history.entries if isinstance(entry, DecisionEntry)]


KEYS = {"one": tuple(ApiKey(secret=role, roles=frozenset((role,))) for role in ("read", "run", "approve"))}


async def test_whoever_runs_a_program_needs_the_role_to_approve_its_calls(tmp_path: Path) -> None:
    table = Table()
    text = "print(await write(row=1), await get_weather(city='Rome'))"
    async with table.serve(tmp_path, Settings(keys=KEYS)) as client:
        body = {"code": text, "tools": [WEATHER], "session_id": "a"}
        refused = [
            (await client.post("/exec/programmatic", json=body, headers={"x-api-key": key}))
            for key in ("read", "approve")
        ]
        client.headers["x-api-key"] = "run"
        first = await client.post("/exec/programmatic", json=body)
        own = await decide(client, first, yes("call_001"))
        rows = list(table.rows)
        client.headers["x-api-key"] = "approve"
        second = await decide(client, first, yes("call_001"))
        both = await decide(client, second, tool_results=[result("call_002", 20)])
        client.headers["x-api-key"] = "run"
        last = await decide(client, second, tool_results=[result("call_002", 20)])
        (latest,) = await table.ledger.list(limit=1)
        path = f"/executions/{latest.execution_id}"
        looked = [
            (await client.get(path, headers={"x-api-key": key})).status_code for key in ("read", "run", "approve")
        ]
        deleted = await client.delete(path, headers={"x-api-key": "read"})

    assert [(answer.status_code, answer.json()["error"]) for answer in refused] == [
        (403, "this needs a key with the role 'run'; yours has 'read'"),
        (403, "this needs a key with the role 'run'; yours has 'approve'"),
    ]
    assert (own.status_code, own.json()["error"], rows) == (
        403, "this needs a key with the role 'approve'; yours has 'run'", [],
    )  # fmt: skip
    assert (second.json()["status"], table.rows) == ("tool_call_required", [1])
    assert (both.status_code, last.json()["stdout"]) == (403, "1 20\n")
    assert (looked, deleted.status_code) == ([200] * 3, 403)


async def decide(client: httpx.AsyncClient, answer: httpx.Response, *decisions: Any, **body: Any) -> httpx.Response:
    request = {"continuation_token": answer.json()["continuation_token"], "decisions": list(decisions), **body}
    return await client.post("/exec/programmatic", json=request)


def yes(call: str, **more: Any) -> dict[str, Any]:
    return {"call_id": call, "approved": True, **more}


def asked(answer: httpx.Response) -> tuple[str, list[Any], list[Any]]:
    body = answer.json()
    return body["status"], body["tool_calls"], [(one["id"], one["name"], one["input"]) for one in body["approvals"]]


async def test_one_yes_for_a_loop_of_fifty_writes_is_asked_once_and_is_the_right_of_each(tmp_path: Path) -> None:
    table = Table()
    async with table.serve(tmp_path) as client:
        first = await start(client, LOOP)
        ended = await decide(client, first, yes("call_001", covers="tool"))
        rights = await table.rights()
        again = await start(client, LOOP)

    assert asked(first) == ("approval_required", [], [("call_001", "write", {"row": 0})])
    assert (ended.json()["status"], ended.json()["stdout"]) == ("completed", "done\n")
    assert table.rows == list(range(50))
    assert rights == [
        DecisionEntry(n, approved=True, by="caller local", covers="tool", under=0 if n == 1 else 1)
        for n in range(1, 51)
    ]
    assert asked(again)[2] == [("call_001", "write", {"row": 0})]  # it went with its program


async def test_a_yes_for_equal_arguments_asks_again_for_others_and_a_no_says_why(tmp_path: Path) -> None:
    table = Table()
    code = "for _ in range(50):\n    await write(row=7)\nawait write(row=8)\n"
    async with table.serve(tmp_path) as client:
        first = await start(client, code)
        second = await decide(client, first, yes("call_001", covers="arguments"))
        ended = await decide(client, second, {"call_id": "call_051", "approved": False, "reason": "not that row"})

    assert asked(second) == ("approval_required", [], [("call_051", "write", {"row": 8})])
    assert table.rows == [7] * 50
    assert ended.json()["error"] == "ToolError: 'write' was denied: not that row"


async def test_a_yes_for_so_many_calls_is_used_up_and_changed_arguments_are_what_is_called(tmp_path: Path) -> None:
    table = Table()
    async with table.serve(tmp_path) as client:
        first = await start(client, "print([await write(row=n) for n in range(4)])")
        second = await decide(client, first, yes("call_001", covers="tool", calls=3))
        ended = await decide(client, second, yes("call_004", arguments={"row": 30}))

    assert asked(second)[2] == [("call_004", "write", {"row": 3})]
    assert (ended.json()["stdout"], table.rows) == ("[0, 1, 2, 30]\n", [0, 1, 2, 30])


async def test_a_pause_has_the_clients_own_calls_beside_what_needs_a_yes(tmp_path: Path) -> None:
    table = Table()
    code = "print(await asyncio.gather(write(row=1), get_weather(city='Paris')))"
    async with table.serve(tmp_path) as client:
        first = await start(client, code, WEATHER)
        (call,) = first.json()["tool_calls"]
        ended = await decide(client, first, yes("call_001"), tool_results=[result(call, "sunny")])

    assert asked(first)[0] == "approval_required"
    assert (call["name"], asked(first)[2]) == ("get_weather", [("call_001", "write", {"row": 1})])
    assert ended.json()["stdout"] == "[1, 'sunny']\n"


async def test_a_decision_that_is_sent_again_gets_the_same_answer_and_nothing_runs_twice(tmp_path: Path) -> None:
    table = Table()
    async with table.serve(tmp_path) as client:
        first = await start(client, "await write(row=1)\nawait write(row=2)\nprint('done')")
        second = await decide(client, first, yes("call_001"))
        same = await decide(client, first, yes("call_001"))
        other = await decide(client, first, {"call_id": "call_001", "approved": False})
        ended = await decide(client, second, yes("call_002"))

    assert second.json() == same.json()
    assert (other.status_code, other.json()["error"]) == (400, "Invalid continuation token")
    assert (ended.json()["stdout"], table.rows) == ("done\n", [1, 2])


async def test_another_process_goes_on_with_what_was_decided_and_knows_it_when_it_is_sent_again(
    tmp_path: Path,
) -> None:
    table = Table()
    code = (
        "for n in range(3):\n    await write(row=n)\nawait get_weather(city='Paris')\nawait write(row=9)\nprint('done')"
    )
    file = tmp_path / "ledger.sqlite"
    table.ledger = SqliteLedger(file)
    async with table.serve(tmp_path) as client:
        first = await start(client, code, WEATHER)
        second = await decide(client, first, yes("call_001", covers="tool"))
    await table.ledger.close()
    table.ledger = SqliteLedger(file)
    async with table.serve(tmp_path) as client:
        same = await decide(client, first, yes("call_001", covers="tool"))
        (call,) = same.json()["tool_calls"]
        body = {"continuation_token": same.json()["continuation_token"], "tool_results": [result(call, "sunny")]}
        ended = await client.post("/exec/programmatic", json=body)
    await table.ledger.close()

    assert second.json()["tool_calls"] == [call]
    assert (ended.json()["stdout"], table.rows) == ("done\n", [0, 1, 2, 9])


@pytest.mark.parametrize(
    ("decision", "says"),
    [
        ({"call_id": "call_002", "approved": True}, "no open approval 'call_002'; open are call_001"),
        ({"call_id": "one", "approved": True}, "call_id 'one' is none of ours; send back the id of the tool call"),
        (
            {"call_id": "call_001", "approved": True, "calls": 5},
            "the decision on 'call_001' is wrong: calls is 5; give 1 or more, and what it covers: 'arguments' or 'tool'",
        ),
        (
            {"call_id": "call_001", "approved": True, "covers": "tool", "arguments": {"row": 1}},
            "the decision on 'call_001' is wrong: a decision that changes arguments covers one call, not 'tool'",
        ),
    ],
)
async def test_a_decision_that_says_nonsense_is_refused_and_can_be_given_again(
    decision: dict[str, Any], says: str, tmp_path: Path
) -> None:
    table = Table()
    async with table.serve(tmp_path) as client:
        first = await start(client, "await write(row=1)\nprint('done')")
        refused = await decide(client, first, decision)
        none = await decide(client, first)
        as_result = await decide(client, first, tool_results=[result("call_001", 1)])
        ended = await decide(client, first, yes("call_001"))

    assert (refused.status_code, refused.json()["error"]) == (400, says)
    assert none.json()["error"] == "tool_results is empty; answer at least one of the open calls"
    assert as_result.json()["error"] == "no open call 'call_001'; none is open"
    assert (ended.json()["stdout"], table.rows) == ("done\n", [1])
