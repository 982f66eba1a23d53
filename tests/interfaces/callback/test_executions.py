"""The child's side without a connection: deadlines, replies that fit nothing, ledgers that are full."""

import asyncio
import json
from pathlib import Path

import pytest

from toolfold.errors import UsageError
from toolfold.interfaces.callback.child_programs import CallbackExecutions, CallbackRequest
from toolfold.interfaces.callback.messages import ToolReply
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.runtime import Runtime
from toolfold.sources.function_tools import tool
from toolfold.tools.policy import Policy


def ok(call_id: str) -> ToolReply:
    return ToolReply(id=call_id, parsed=True, has_error=False, observation="ok")


async def test_a_paused_program_that_is_cut_short_keeps_its_output_in_every_ledger(tmp_path: Path) -> None:
    for ledger in (MemoryLedger(), SqliteLedger(tmp_path / "ledger.sqlite")):
        async with Runtime(ledger=ledger) as runtime:
            executions = CallbackExecutions(runtime, workspace=tmp_path)
            for seconds in (0.3, 5.0, 50.0):  # the next where its time was over before a busy machine had begun
                wish = CallbackRequest(code="print('seen')\ntools.x()", timeout_seconds=seconds)
                execution_id, first = await executions.begin(wish)
                if first.calls:
                    break
            end = await executions.resume(execution_id, [])
            with pytest.raises(UsageError):
                await executions.resume(execution_id, [])
        await ledger.close()

        assert [call.name for call in first.calls] == ["x"]
        answer = json.loads(end.final or "")
        assert (answer["stdout"], answer["error"]["type"]) == ("seen\n", "TimeoutError")


async def test_a_program_whose_guest_had_to_make_room_still_ends_at_its_deadline(tmp_path: Path) -> None:
    async with Runtime() as runtime:
        executions = CallbackExecutions(runtime, workspace=tmp_path)
        for seconds in (0.3, 5.0, 50.0):  # as above
            execution_id, first = await executions.begin(CallbackRequest(code="tools.x()", timeout_seconds=seconds))
            if first.calls:
                break
        await runtime.executions.release(execution_id)
        end = await executions.resume(execution_id, [])
        found = await runtime.executions.recorded(execution_id)

    assert json.loads(end.final or "")["error"]["type"] == "TimeoutError"
    assert found is not None
    assert found.has_ended


async def test_replies_to_no_open_call_are_ignored(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    async with Runtime(ledger=ledger) as runtime:
        executions = CallbackExecutions(runtime, workspace=tmp_path)
        execution_id, first = await executions.begin(CallbackRequest(code="result = [tools.x(), tools.x()]"))
        (call,) = first.calls
        second = await executions.resume(execution_id, [ok(call.id), ok(call.id), ok("call_of_another")])
        (other,) = second.calls
        end = await executions.resume(execution_id, [ok(call.id), ok(other.id)])

    assert json.loads(end.final or "")["return_value"] == ["ok", "ok"]


async def test_a_second_resume_while_the_program_runs_is_refused(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    async with Runtime(ledger=ledger) as runtime:
        executions = CallbackExecutions(runtime, workspace=tmp_path)
        execution_id, first = await executions.begin(CallbackRequest(code="tools.x()\nimport time\ntime.sleep(0.2)"))
        going = asyncio.create_task(executions.resume(execution_id, [ok(first.calls[0].id)]))
        await asyncio.sleep(0)
        with pytest.raises(UsageError) as caught:
            await executions.resume(execution_id, [])
        await going

    assert str(caught.value) == (f"execution {execution_id!r} is running; wait for the result of the last resume")


async def test_an_execution_that_cannot_go_on_says_which_calls_were_made(tmp_path: Path) -> None:
    ledger = MemoryLedger(max_execution_bytes=2_000)
    async with Runtime(ledger=ledger) as runtime:
        executions = CallbackExecutions(runtime, workspace=tmp_path)
        execution_id, first = await executions.begin(CallbackRequest(code="tools.x(a=1)"))
        large = ToolReply(id=first.calls[0].id, parsed=True, has_error=False, observation="o" * 3_000)
        end = await executions.resume(execution_id, [large])

    answer = json.loads(end.final or "")
    assert (answer["success"], answer["error"]["type"]) == (False, "LedgerFull")
    assert [(call["tool_name"], call["args"]) for call in answer["tool_calls"]] == [("x", {"a": 1})]


async def test_tools_of_the_child_are_offered_too_and_what_needs_a_yes_is_refused(tmp_path: Path) -> None:
    @tool
    async def own() -> str:
        """The child's."""
        return "own"

    @tool
    async def asked() -> str:
        """Needs a yes."""
        return "never"

    ledger = MemoryLedger()
    async with Runtime([own, asked], ledger=ledger, policy=Policy(ask=("asked",))) as runtime:
        executions = CallbackExecutions(runtime, workspace=tmp_path)
        code = (
            "result = [tools.own()]\ntry:\n    tools.asked()\nexcept ToolError as error:\n    result.append(str(error))"
        )
        execution_id, first = await executions.begin(CallbackRequest(code=f"{code}\nresult.append(tools.x())"))
        end = await executions.resume(execution_id, [ok(first.calls[0].id)])

    value = json.loads(end.final or "")["return_value"]
    assert (value[0], value[2]) == ("own", "ok")
    assert value[1] == "'asked' was denied: it needs approval, and nobody can give it here"
    assert executions._programs == {}


async def test_the_tools_of_a_large_text_are_found_without_parsing_it_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolfold.program import known_names

    parsed_here: list[int] = []
    monkeypatch.setattr(known_names, "parse", lambda text, _: parsed_here.append(len(text)))
    ledger = MemoryLedger()
    async with Runtime(ledger=ledger) as runtime:
        executions = CallbackExecutions(runtime, workspace=tmp_path)
        text = "from tools import quiet_name\n" + "# x\n" * 20_000 + "quiet_name()"
        _, first = await executions.begin(CallbackRequest(code=text, timeout_seconds=100.0))

    assert ([call.name for call in first.calls], parsed_here) == (["quiet_name"], [])
