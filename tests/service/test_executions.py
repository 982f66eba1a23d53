"""What can become of an execution that this process holds."""

import time
from contextlib import nullcontext
from typing import Any, get_args

import pytest

from toolfold.errors import LedgerFailed
from toolfold.ledger.memory import MemoryLedger
from toolfold.models import Outcome, Paused, Reply, ToolSpec
from toolfold.runtime import Runtime
from toolfold.service.executions import (
    TRANSITIONS,
    Event,
    ExecutionObserver,
    ExecutionOver,
    ExecutionService,
    HeldExecution,
    State,
    next_state,
)

CLIENT_TOOL = ToolSpec(name="x", python_name="x", description="", input_schema={"type": "object"}, source="caller")


class Notes(ExecutionObserver[str]):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def pause_changed(self, execution: HeldExecution[str], change: int) -> None:
        self.heard.append(change)

    def ended(self, execution: HeldExecution[str], status: str) -> None:
        self.heard.append(status)

    async def expired(self, execution: HeldExecution[str], outcome: Outcome | None) -> None:
        self.heard.append(None if outcome is None else (outcome.status, outcome.stdout))


async def pause(service: ExecutionService[str], runtime: Runtime, seconds: float = 60.0) -> HeldExecution[str]:
    execution: HeldExecution[str] = HeldExecution(execution_id="a" * 16, session="s", deadline=time.time() + seconds)

    def start() -> Any:
        return runtime.start("print('seen')\nresult = tools.x()", tools=[CLIENT_TOOL], execution_id="a" * 16)

    step = await service.begin(execution, start, turn=nullcontext())
    assert isinstance(step, Paused)
    service.pause(execution, step)
    service.hold(execution)
    return execution


@pytest.mark.parametrize(("has_guest", "heard"), [(True, ("timeout", "seen\n")), (False, None)])
async def test_a_pause_ends_on_record_at_its_deadline_with_or_without_its_guest(has_guest: bool, heard: Any) -> None:
    notes = Notes()
    async with Runtime(ledger=MemoryLedger()) as runtime:
        service: ExecutionService[str] = ExecutionService(runtime, observer=notes)
        execution = await pause(service, runtime)
        if not has_guest:
            await runtime.executions.release(execution.execution_id)
        service.expire(execution)
        await service.wait_for_expiry(execution.execution_id)
        recorded = await runtime.executions.recorded(execution.execution_id)
        with pytest.raises(ExecutionOver):
            await service.resume(execution, [], {}, turn=nullcontext())
        await service.close()

    assert recorded is not None
    assert recorded.outcome is not None
    assert (recorded.outcome.status, service.get(execution.execution_id)) == ("timeout", None)
    assert notes.heard == [1, -1, "timeout", heard]


async def test_whoever_waits_for_a_pause_is_told_of_its_deadline_also_where_nothing_can_be_written() -> None:
    class FullLedger(MemoryLedger):
        async def finish(self, *_: Any, **__: Any) -> None:
            raise LedgerFailed("no room")

    notes = Notes()
    async with Runtime(ledger=FullLedger()) as runtime:
        service: ExecutionService[str] = ExecutionService(runtime, observer=notes)
        execution = await pause(service, runtime)
        service.expire(execution)
        await service.wait_for_expiry(execution.execution_id)
        await service.close()

    assert notes.heard == [1, -1, "timeout", None]


async def test_an_execution_goes_on_from_its_pause_and_is_remembered_after_its_end() -> None:
    notes = Notes()
    async with Runtime(ledger=MemoryLedger()) as runtime:
        service: ExecutionService[str] = ExecutionService(runtime, observer=notes)
        execution = await pause(service, runtime)
        (call_id,) = execution.open_calls
        outcome = await service.resume(execution, [Reply(call_id=call_id, value="ok")], {}, turn=nullcontext())
        assert isinstance(outcome, Outcome)
        service.end(execution, outcome.status)
        await service.close()

    assert (outcome.value, execution.state, execution.replies) == ("ok", "over", 1)
    assert service.get(execution.execution_id) is execution
    assert notes.heard == [1, -1, "finished"]


def walk(state: State, *events: Event) -> State:
    for event in events:
        state = next_state(state, event)
    return state


@pytest.mark.parametrize(
    ("first", "events", "last"),
    [
        ("starting", ["begin", "end"], "over"),
        ("starting", ["begin", "pause", "resume", "pause", "end"], "over"),
        ("starting", ["end", "end"], "over"),
        ("starting", ["lose"], "lost"),
        ("unread", ["read", "pause", "resume"], "running"),
        ("unread", ["cancel", "cancel", "read", "end"], "over"),
        ("unread", ["end"], "over"),
        ("running", ["pause", "lose"], "lost"),
        ("over", ["lose"], "lost"),
    ],
)
def test_an_execution_lives_by_the_table(first: State, events: list[Event], last: State) -> None:
    assert walk(first, *events) == last


@pytest.mark.parametrize("event", get_args(Event))
def test_what_is_lost_stays_lost_whatever_is_heard_of_it_late(event: Event) -> None:
    assert next_state("lost", event) == "lost"


@pytest.mark.parametrize("state", get_args(State))
def test_every_state_can_be_lost_and_is_reached_from_a_first_one(state: State) -> None:
    reached: set[State] = {"starting", "unread"}
    for _ in get_args(State):
        reached |= {following for (before, _), following in TRANSITIONS.items() if before in reached}

    assert state in reached
    assert next_state(state, "lose") == "lost"


@pytest.mark.parametrize(
    ("state", "event"), [("starting", "pause"), ("paused", "pause"), ("over", "resume"), ("running", "begin")]
)
def test_what_is_not_in_the_table_cannot_happen(state: State, event: Event) -> None:
    with pytest.raises(RuntimeError, match=f"^'{event}' cannot happen to an execution that is {state}$"):
        next_state(state, event)
