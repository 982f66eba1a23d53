"""How often one program may call one tool."""

import pytest

from tests.tools.support import Planned, made, router_of, serve_in
from toolfold.models import Call
from toolfold.tools.policy import Policy
from toolfold.tools.tool import CallContext


async def test_calls_over_the_budget_are_refused_with_the_number() -> None:
    call = Planned("sent")
    router = router_of(made(call, "send_mail"), policy=Policy(max_calls={"send_*": 2}))
    context = CallContext()

    errors = [(await serve_in(context, router, "send_mail")).error for _ in range(4)]

    refusal = "'send_mail' is out of budget: 2 of 2 calls used in this program"
    assert errors == [None, None, refusal, refusal]
    assert call.calls == 2


async def test_each_tool_and_each_program_has_its_own_count() -> None:
    router = router_of(made(Planned(1)), made(Planned(1), "y"), policy=Policy(max_calls={"*": 1}))
    first, second = CallContext(), CallContext()

    replies = [await serve_in(context, router, tool) for context in (first, second) for tool in ("x", "y", "x")]

    assert [reply.error is None for reply in replies] == [True, True, False, True, True, False]


async def test_the_smallest_number_counts() -> None:
    router = router_of(made(Planned(1)), policy=Policy(max_calls={"*": 3, "x": 1, "?": 2}))
    context = CallContext()

    assert [(await serve_in(context, router)).error is None for _ in range(2)] == [True, False]


async def test_a_direct_call_has_no_program_to_count_for() -> None:
    router = router_of(made(Planned(1)), policy=Policy(max_calls={"x": 1}))
    call, context = Call(id=0, tool="x", arguments={}), CallContext()

    replies = [await router.serve(call, caller="direct", context=context) for _ in range(3)]

    assert [reply.error for reply in replies] == [None, None, None]


async def test_a_call_that_was_refused_or_tried_again_counts_as_it_was_made() -> None:
    call = Planned(ConnectionRefusedError(), 1)
    schema = {"properties": {"n": {"type": "integer"}}}
    router = router_of(made(call, input_schema=schema), policy=Policy(max_calls={"x": 2}))
    context = CallContext()

    errors = [(await serve_in(context, router, n=n)).error for n in ("bad", 1, 2)]

    assert errors == ["'x' got a bad argument: n must be an integer, got 'bad'", None, None]
    assert (call.calls, context.spent.calls) == (3, {"x": 2})


@pytest.mark.parametrize("number", [0, -1])
def test_a_budget_is_at_least_one(number: int) -> None:
    with pytest.raises(Exception, match=f"^max_calls of 'x' must be at least 1, got {number}$"):
        Policy(max_calls={"x": number})
