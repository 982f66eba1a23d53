"""Who may call what."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.support import Planned, made, router_of, serve, serve_in
from toolfold.config import Config, parse_config
from toolfold.config.build import runtime_settings
from toolfold.errors import UsageError
from toolfold.models import Call, Reply, ToolSpec
from toolfold.runtime import Runtime
from toolfold.tools.policy import Policy
from toolfold.tools.router import Caller
from toolfold.tools.router_steps import wrappers
from toolfold.tools.tool import CallContext, Decision

DELETE = "mcp__internal_apis__delete_resource"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_blocked_tool_is_refused_with_the_entrys_name() -> None:
    call = Planned("gone")
    router = router_of(made(call, DELETE), policy=Policy(block=["*delete*"]))

    in_interface = await serve_in(CallContext(entry_name="execute_program"), router, DELETE)
    elsewhere = await serve(router, DELETE)
    directly = await serve(router, DELETE, caller="direct")

    assert in_interface.error == "'mcp__internal_apis__delete_resource' is not available in execute_program"
    assert elsewhere.error == "'mcp__internal_apis__delete_resource' is not available in a program"
    assert directly.error == "'mcp__internal_apis__delete_resource' is not available in direct calls"
    assert call.calls == 0


async def test_who_may_not_call_learns_nothing_of_the_arguments() -> None:
    router = router_of(made(Planned(1), input_schema=SCHEMA), policy=Policy(block=["x"]))

    assert (await serve(router, n="wrong")).error == "'x' is not available in a program"


async def test_arguments_are_still_checked_behind_the_policy() -> None:
    router = router_of(made(Planned(1), input_schema=SCHEMA), policy=Policy(allow=["x"]))

    assert (await serve(router, n="wrong")).error == "'x' got a bad argument: n must be an integer, got 'wrong'"


@pytest.mark.parametrize(
    ("options", "permitted"),
    [
        ({}, {"get-user", "get_team", "drop"}),
        ({"allow": ["get*"]}, {"get-user", "get_team"}),
        ({"allow": ["get_user"]}, {"get-user"}),
        ({"allow": ["fetch_user", "drop"]}, {"get-user", "drop"}),
        ({"allow": []}, set()),
        ({"block": ["get_*"]}, {"drop"}),
        ({"block": ["fetch_user"]}, {"get_team", "drop"}),
        ({"block": "dro?"}, {"get-user", "get_team"}),
        ({"block": ["DROP"]}, {"get-user", "get_team", "drop"}),
    ],
)
async def test_patterns_mean_a_tool_by_name_identifier_and_alias(options: Any, permitted: set[str]) -> None:
    tools = [
        made(Planned(1), "get-user", python_name="get_user", aliases=("fetch_user",)),
        made(Planned(1), "get_team"),
        made(Planned(1), "drop"),
    ]
    router = router_of(*tools, policy=Policy(**options))

    assert {tool.spec.name for tool in tools if (await serve(router, tool.spec.name)).error is None} == permitted


def test_allow_and_block_together_are_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        Policy(allow=["a"], block=["b"])

    assert str(caught.value) == "a policy takes allow or block, not both; allow already refuses all others"


def test_bad_patterns_and_numbers_are_usage_errors() -> None:
    with pytest.raises(UsageError) as empty:
        Policy(block=[""])
    with pytest.raises(UsageError) as zero:
        Policy(max_calls={"x": 0})

    assert str(empty.value) == "'' is not a pattern for tool names; write a name, or 'prefix_*'"
    assert str(zero.value) == "max_calls of 'x' must be at least 1, got 0"


async def test_a_tool_that_the_allow_list_leaves_out_cannot_be_approved() -> None:
    async def approve(*_: Any) -> Decision:
        return Decision(approved=True)

    router = router_of(made(Planned(1)), made(Planned(1), "y"), policy=Policy(allow=["y"], ask=["x"]))

    reply = await serve_in(CallContext(approve=approve), router)

    assert reply == Reply(call_id=1, error="'x' is not available in a program")


# --- no bypass -------------------------------------------------------------------------------

NAMES = ["get_user", "get_team", "delete_user", "mcp__hr__delete", "a-b"]
PATTERNS = st.lists(st.sampled_from([*NAMES, "*", "get_*", "*delete*", "a_b", "?et_*", "[gd]*", "none"]), max_size=3)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    lists = draw(st.sampled_from([{}, {"allow": draw(PATTERNS)}, {"block": draw(PATTERNS)}]))
    return Policy(**lists, ask=draw(PATTERNS))


@given(
    policy=policies(),
    name=st.sampled_from(NAMES),
    allowed=st.sampled_from(["direct", "both"]),
    approves=st.sampled_from([True, False, None]),
    n=st.sampled_from([1, "wrong"]),
)
@settings(max_examples=150, deadline=None)
async def test_a_program_may_never_call_what_its_caller_may_not_call_directly(
    policy: Policy, name: str, allowed: Any, approves: bool | None, n: Any
) -> None:
    async def approve(*_: Any) -> Decision:
        return Decision(approved=bool(approves))

    context = CallContext(approve=None if approves is None else approve)
    call = Planned("ran")
    tool = made(call, name, python_name=name.replace("-", "_"), allowed_callers=allowed, input_schema=SCHEMA)
    router = router_of(tool, policy=policy)
    replies = {}
    callers: tuple[Caller, ...] = ("direct", "code")
    for caller in callers:
        one = Call(id=1, tool=name, arguments={"n": n})
        replies[caller] = await router.serve(one, caller=caller, context=context)

    if replies["direct"].error is not None:
        assert replies["code"].error is not None
        assert call.calls == 0
    assert call.calls == sum(reply.error is None for reply in replies.values())


def test_a_policy_can_ask_for_every_tool_that_is_marked_destructive() -> None:
    policy = policy_of(parse_config("tools: {ask: [pay], ask_destructive: true}"))

    specs = [
        ToolSpec(name="pay", python_name="pay"),
        ToolSpec(name="wipe", python_name="wipe", destructive=True),
        ToolSpec(name="read", python_name="read", read_only=True),
    ]
    assert [policy.asks(spec) for spec in specs] == [True, True, False]
    assert [Policy(ask=["pay"]).asks(spec) for spec in specs] == [True, False, False]


def policy_of(config: Config) -> Policy:
    policy = runtime_settings(config).policy
    assert isinstance(policy, Policy)
    return policy


def test_the_page_names_every_step_of_a_call() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
    chain = next(part for part in page.split("\n\n") if part.startswith("find →"))

    of_the_router = {"find", "allowed caller", "timeout", "call"}
    named = {step.strip() for step in chain.split("→")}

    assert of_the_router < named
    assert len(named - of_the_router) == len(wrappers()), named


# --- conditions --------------------------------------------------------------------------------


def at_most_ten(call: Call, context: CallContext) -> bool | str:
    return call.arguments["n"] <= 10 or context.tenant == "boss" or "more than 10"


async def at_most_ten_later(call: Call, context: CallContext) -> bool | str:
    return at_most_ten(call, context)


@pytest.mark.parametrize("when", [at_most_ten, at_most_ten_later, {"x": at_most_ten}])
async def test_a_condition_decides_by_arguments_and_tenant(when: Any) -> None:
    call = Planned("done")
    router = router_of(made(call, input_schema=SCHEMA), policy=Policy(when=when))
    boss = CallContext(tenant="boss")

    replies = [
        await serve(router, n=10),
        await serve(router, n=11),
        await serve(router, caller="direct", n=11),
        await serve_in(boss, router, n=11),
        await serve(router, n="bad"),
    ]

    assert [reply.error for reply in replies][:4] == [
        None, "'x' was refused: more than 10", "'x' was refused: more than 10", None,
    ]  # fmt: skip
    assert replies[4].error is not None
    assert "refused" not in replies[4].error
    assert call.calls == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (True, None),
        (False, "'x' was refused by its condition"),
        (None, "'x' was refused by its condition"),
        ("", "'x' was refused by its condition"),
        ("not today", "'x' was refused: not today"),
        (1, "'x' was refused by its condition"),
        (ValueError("/srv/secret"), "'x' was not called: its condition failed"),
    ],
)
async def test_only_a_true_answer_permits_the_call(answer: Any, error: str | None) -> None:
    def when(_call: Call, _context: CallContext) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    call = Planned("done")
    reply = await serve(router_of(made(call), policy=Policy(when=when)))

    assert (reply.error, call.calls) == (error, int(error is None))


async def test_a_condition_is_asked_again_for_arguments_that_the_approver_wrote() -> None:
    async def approve(_call: Call, _spec: ToolSpec) -> Decision:
        return Decision(approved=True, arguments={"n": 99})

    call = Planned("done")
    router = router_of(made(call, input_schema=SCHEMA), policy=Policy(ask=["x"], when=at_most_ten))

    reply = await serve_in(CallContext(approve=approve), router, n=1)

    assert (reply.error, call.calls) == ("'x' was refused: more than 10", 0)


async def test_search_is_not_asked_about_and_a_tool_of_another_pattern_neither() -> None:
    def never(_call: Call, _context: CallContext) -> bool:
        return False

    def fine() -> str:
        """Fine."""
        return "fine"

    async with Runtime([fine], policy=Policy(when=never)) as runtime:
        everywhere = await runtime.run("print((await search_tools(query='fine'))[0]['name'])\nawait fine()")
    async with Runtime([fine], policy=Policy(when={"other": never})) as runtime:
        elsewhere = await runtime.run("print(await fine())")

    assert (everywhere.stdout, everywhere.status, elsewhere.stdout) == ("fine\n", "failed", "fine\n")
