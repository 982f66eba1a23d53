"""The tasks extension: a program that would yield becomes a task of a client that declares it."""

import asyncio
import re
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError

from tests.interfaces.mcp.conftest import run, texts, until
from tests.interfaces.mcp.test_yielding import SOON, Gate, id_in, wait
from toolfold.interfaces.mcp.program_tasks import TASKS, new_id
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.tools.policy import Policy

DONE = "[Script executed successfully]\n"


class Created(types.Result):
    """The answer to a request that became a task."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int
    poll_interval_ms: int


class Task(types.Result):
    """What `tasks/get` says."""

    task_id: str
    status: str
    created_at: str
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


class Params(types.RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(types.Request[Params, str]):
    method: str
    params: Params


class Polling(ClientExtension):
    """A client that has the extension: it polls a task to its end, and its caller sees a plain result."""

    identifier = TASKS

    def __init__(self) -> None:
        self.made: list[Created] = []
        self.gets = 0

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self._resolve)]

    async def _resolve(self, made: Created, context: ClaimContext) -> types.CallToolResult:
        self.made.append(made)
        while True:
            self.gets += 1
            task = await send(context.session, "tasks/get", made.task_id)
            if task.result is not None:
                return types.CallToolResult.model_validate(task.result)
            await asyncio.sleep(0.01)


async def send(session: Any, method: str, task_id: str, **more: Any) -> Task:
    kind = Task if method == "tasks/get" else types.Result
    request = TaskRequest(method=method, params=Params(task_id=task_id, **more))
    return await session.send_request(request, kind)


async def begin(client: Client, code: str, **arguments: Any) -> Created:
    answer = await client.session.call_tool("execute_program", {"code": code, **arguments}, allow_claimed=True)
    assert isinstance(answer, Created)
    return answer


async def ended(client: Client, task_id: str) -> Task:
    while (task := await send(client.session, "tasks/get", task_id)).status in ("working", "input_required"):
        await asyncio.sleep(0.01)
    return task


async def test_a_client_that_polls_tasks_gets_the_whole_result_and_no_model_is_told_to_wait(open_client) -> None:
    gate, polling = Gate(), Polling()
    async with open_client(gate.gate, yielding=SOON, extensions=[polling]) as client:
        tools = (await client.list_tools()).tools
        quick = await run(client, "print('quick')")
        running = asyncio.create_task(run(client, "print('one')\nawait gate()\nprint('two')"))
        await until(lambda: polling.gets > 2)
        gate.opened.set()
        result = await running

    assert [tool.name for tool in tools] == ["execute_program"]
    assert "yield_after_seconds" not in tools[0].input_schema["properties"]
    assert texts(quick) == [f"{DONE}quick\n"]
    assert texts(result) == [f"{DONE}one\ntwo\n"]
    (made,) = polling.made
    assert (made.status, made.ttl_ms, made.poll_interval_ms) == ("working", 700_000, 1000)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", made.created_at)


async def test_a_program_that_fails_is_a_task_that_has_completed_and_says_so_as_often_as_it_is_asked(
    open_client,
) -> None:
    gate = Gate()
    async with open_client(gate.gate, yielding=SOON, extensions=[Polling()]) as client:
        made = await begin(client, "await gate()\n1 / 0")
        working = await send(client.session, "tasks/get", made.task_id)
        gate.opened.set()
        first = await ended(client, made.task_id)
        again = await send(client.session, "tasks/get", made.task_id)

    assert (working.status, working.result, working.created_at) == ("working", None, made.created_at)
    assert first.result is not None
    assert (first.status, first.result["isError"]) == ("completed", True)
    assert first.result["content"][0]["text"].endswith("ZeroDivisionError: division by zero")
    assert again == first


async def test_a_task_that_is_cancelled_ends_with_its_calls_and_can_be_cancelled_again(open_client) -> None:
    gate = Gate()
    async with open_client(gate.gate, yielding=SOON, extensions=[Polling()]) as client:
        made = await begin(client, "await gate()")
        await send(client.session, "tasks/cancel", made.task_id)
        task = await send(client.session, "tasks/get", made.task_id)
        await send(client.session, "tasks/cancel", made.task_id)

    assert (task.status, task.result, task.error) == ("cancelled", None, None)
    assert gate.left == 1


async def test_a_task_asks_as_often_as_its_program_needs_and_is_answered_with_an_update(open_client) -> None:
    def pay(n: int) -> int:
        return n

    gate = Gate()
    yes = {"action": "accept", "content": {"approve": True}}
    options = {"policy": Policy(ask=["pay"]), "yielding": SOON, "extensions": [Polling()]}

    async def never(*_: Any) -> types.ElicitResult:
        raise AssertionError("a task's questions are in the task")

    async with open_client(pay, gate.gate, **options, elicitation_callback=never) as client:
        made = await begin(client, "await gate()\nprint(sum([await pay(n=n) for n in range(12)]))")
        gate.opened.set()
        asked: list[str] = []
        while (task := await send(client.session, "tasks/get", made.task_id)).status != "completed":
            for key, request in (task.input_requests or {}).items():
                asked.append(request["params"]["message"])
                await send(client.session, "tasks/update", made.task_id, input_responses={key: yes})
            await asyncio.sleep(0.01)

    assert asked == [f'A program wants to call pay with {{"n": {n}}}' for n in range(12)]
    assert task.result is not None
    assert task.result["content"][0]["text"] == f"{DONE}66\n"


async def test_an_answer_that_is_none_is_refused_and_one_to_no_question_is_ignored(open_client) -> None:
    def pay(n: int) -> int:
        return n

    async def never(*_: Any) -> types.ElicitResult:
        raise AssertionError("a task's questions are in the task")

    gate = Gate()
    options = {"policy": Policy(ask=["pay"]), "yielding": SOON, "extensions": [Polling()]}
    async with open_client(pay, gate.gate, **options, elicitation_callback=never) as client:
        made = await begin(client, "await gate()\nprint(await pay(n=1))")
        gate.opened.set()
        while not (task := await send(client.session, "tasks/get", made.task_id)).input_requests:
            await asyncio.sleep(0.01)
        (key,) = task.input_requests
        await send(client.session, "tasks/update", made.task_id, input_responses={"other": {"x": 1}})
        with pytest.raises(MCPError) as caught:
            await send(client.session, "tasks/update", made.task_id, input_responses={key: {"x": 1}})
        no = {"action": "decline"}
        await send(client.session, "tasks/update", made.task_id, input_responses={key: no})
        last = await ended(client, made.task_id)

    assert caught.value.error.message == "an answer is not what its question asks for"
    assert last.result is not None
    assert last.result["content"][0]["text"].endswith("ToolError: 'pay' was denied: the user answered 'decline'")


async def test_another_process_knows_how_a_task_ended(open_client, tmp_path) -> None:
    gate = Gate()

    async def process(work: Any) -> Any:
        ledger = SqliteLedger(tmp_path / "ledger.sqlite")
        options = {"yielding": SOON, "ledger": ledger, "holds": tmp_path / "holds", "extensions": [Polling()]}
        async with open_client(gate.gate, **options) as client:
            found = await work(client)
        await ledger.close()
        return found

    async def first(client: Client) -> Task:
        made = await begin(client, "print('one')\nprint(await gate(n=2))")
        gate.opened.set()
        return await ended(client, made.task_id)

    known = await process(first)
    found = await process(lambda client: send(client.session, "tasks/get", known.task_id))

    assert known.result is not None
    assert known.result["content"][0]["text"] == f"{DONE}one\n2\n"
    assert (found.status, found.result) == ("completed", known.result)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_who_names_no_task_of_its_own_is_told_so(open_client, method) -> None:
    more = {"input_responses": {}} if method == "tasks/update" else {}
    async with open_client(yielding=SOON, extensions=[Polling()]) as client:
        for wrong in ("x", new_id("another client"), new_id("stdio")):
            with pytest.raises(MCPError) as caught:
                await send(client.session, method, wrong, **more)
            assert caught.value.error.code == types.INVALID_PARAMS


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_a_client_that_does_not_declare_the_extension_has_no_tasks(open_client, method) -> None:
    gate = Gate()
    more = {"input_responses": {}} if method == "tasks/update" else {}
    async with open_client(gate.gate, yielding=SOON) as client:
        result = await run(client, "await gate()")
        with pytest.raises(MCPError) as caught:
            await send(client.session, method, new_id("stdio"), **more)
        gate.opened.set()
        await wait(client, id_in(result))

    assert texts(result)[0] == "[Script still running]\n(no output yet)"
    assert caught.value.error.code == -32021
    assert caught.value.error.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
