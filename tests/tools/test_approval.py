"""Asking before a call."""

import asyncio
from typing import Any

import pytest

from tests.tools.support import Planned, made, router_of, serve, serve_in
from toolfold.models import Call, Reply, ReplyMeta, ToolSpec
from toolfold.tools import Router
from toolfold.tools.policy import Policy
from toolfold.tools.tool import CallContext, Decision

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def asking(call: Any, **fields: Any) -> Router:
    return router_of(made(call, "delete", input_schema=SCHEMA, **fields), policy=Policy(ask=["delete"]))


def deciding(decision: Any) -> CallContext:
    async def approve(call: Call, spec: ToolSpec) -> Any:
        if isinstance(decision, Exception):
            raise decision
        return decision

    return CallContext(approve=approve)


async def test_nobody_to_ask_is_a_refusal() -> None:
    call = Planned("gone")

    assert await serve(asking(call), "delete", id=1) == Reply(
        call_id=1, error="'delete' was denied: it needs approval, and nobody can give it here"
    )
    assert (await serve(asking(call), "delete", caller="direct", id=1)).error == (
        "'delete' was denied: it needs approval, and nobody can give it here"
    )
    assert call.calls == 0


async def test_an_approved_call_runs_and_the_approver_saw_what_runs() -> None:
    seen = []

    async def approve(call: Call, spec: ToolSpec) -> Decision:
        seen.append((call, spec.name))
        return Decision(approved=True)

    reply = await serve_in(CallContext(approve=approve), asking(Planned("gone")), "delete", id=1)

    assert (reply, reply.meta) == (Reply(call_id=1, value="gone"), None)
    assert seen == [(Call(id=1, tool="delete", arguments={"id": 1}), "delete")]


@pytest.mark.parametrize(
    ("decision", "error"),
    [
        (Decision(approved=False, reason="not on a Friday"), "'delete' was denied: not on a Friday"),
        (Decision(approved=False), "'delete' was denied"),
        (RuntimeError("/srv/secret"), "'delete' needs approval, and asking for it failed"),
    ],
)
async def test_anything_but_a_yes_refuses(decision: Any, error: str) -> None:
    call = Planned("gone")

    assert await serve_in(deciding(decision), asking(call), "delete", id=1) == Reply(call_id=1, error=error)
    assert call.calls == 0


async def test_an_answer_that_is_no_decision_runs_nothing() -> None:
    call = Planned("gone")

    reply = await serve_in(deciding(True), asking(call), "delete", id=1)

    assert (reply.error is None, call.calls) == (False, 0)


async def test_edited_arguments_are_used_and_shown() -> None:
    call = Planned("gone")

    reply = await serve_in(deciding(Decision(approved=True, arguments={"id": 7})), asking(call), "delete", id=1)

    assert (reply.value, reply.meta) == ("gone", ReplyMeta(arguments={"id": 7}))
    assert call.arguments == [{"id": 7}]


async def test_edited_arguments_are_checked_again() -> None:
    call = Planned("gone")

    reply = await serve_in(deciding(Decision(approved=True, arguments={"id": "all"})), asking(call), "delete", id=1)

    assert reply.error == "'delete' got a bad argument: id must be an integer, got 'all'"
    assert call.calls == 0


async def test_bad_arguments_are_not_worth_asking_for() -> None:
    asked = []

    async def approve(call: Call, spec: ToolSpec) -> Decision:
        asked.append(call)
        return Decision(approved=True)

    reply = await serve_in(CallContext(approve=approve), asking(Planned(1)), "delete", id="x")

    assert reply.error == "'delete' got a bad argument: id must be an integer, got 'x'"
    assert asked == []


async def test_waiting_for_approval_is_not_the_tools_time() -> None:
    async def slow(call: Call, spec: ToolSpec) -> Decision:
        deadline = asyncio.get_running_loop().time() + 0.03
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0)
        return Decision(approved=True)

    router = asking(Planned("gone"), timeout_seconds=0.02)

    assert (await serve_in(CallContext(approve=slow), router, "delete", id=1)).value == "gone"


async def test_of_fifty_calls_each_has_its_own_answer() -> None:
    everybody = asyncio.Barrier(50)

    async def approve(call: Call, spec: ToolSpec) -> Decision:
        await everybody.wait()
        number = call.arguments["id"]
        if number % 2:
            return Decision(approved=False, reason=f"{number} is odd")
        return Decision(approved=True, arguments={"id": 1000} if number == 4 else None)

    call = Planned("gone")
    router, context = asking(call), CallContext(approve=approve)

    replies = await asyncio.gather(*(serve_in(context, router, "delete", id=number) for number in range(50)))

    assert [reply.error for reply in replies] == [
        f"'delete' was denied: {number} is odd" if number % 2 else None for number in range(50)
    ]
    assert sorted(arguments["id"] for arguments in call.arguments) == sorted({*range(0, 50, 2)} - {4} | {1000})
