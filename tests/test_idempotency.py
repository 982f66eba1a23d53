"""Idempotency keys: a tool is told one for each call of a program, and a program may give its own."""

import pytest

from toolfold import Runtime, UsageError
from toolfold.orchestrator import ProgrammaticToolExecutor, ToolCatalog, ToolDefinition, ToolParameter, call_context
from toolfold.sources.function_tools import as_tool
from toolfold.tools.router_steps import Retry, wrappers
from toolfold.tools.tool import CallContext, Tool


def paying(seen: list[str | None], failures: int = 0) -> Tool:
    async def pay(amount: int, context: CallContext) -> str:
        """Takes money."""
        seen.append(context.idempotency_key)
        if len(seen) <= failures:
            raise ConnectionError("lost")
        return f"paid {amount}"

    return as_tool(pay)


async def test_each_call_of_a_program_has_a_key_of_its_own_and_each_attempt_the_same() -> None:
    seen: list[str | None] = []
    steps = wrappers(retry=Retry(first_wait_seconds=0.001))
    tool = paying(seen, failures=1)
    retried = Tool(spec=tool.spec, call=tool.call, call_within=tool.call_within, prepare=tool.prepare, retry="always")

    async with Runtime([retried], steps=steps) as runtime:
        outcome = await runtime.run("print(await pay(amount=1), await pay(amount=1))")
        direct = await runtime.call("pay", {"amount": 2})

    first, second = (f"{outcome.execution_id}:{number}" for number in (1, 2))
    assert (outcome.stdout, direct.value) == ("paid 1 paid 1\n", "paid 2")
    assert seen == [first, first, second, None]
    assert "context" not in tool.spec.parameters


@pytest.mark.parametrize("engine", ["process", "monty"])
async def test_a_program_can_give_a_key_and_the_tool_is_called_once_for_it(engine: str) -> None:
    seen: list[str | None] = []
    text = 'print(await pay(amount=1, idempotency_key="order-7"), await pay(1, idempotency_key="order-7"))'

    async with Runtime([paying(seen)], engine=engine) as runtime:
        outcome = await runtime.run(text)
        again = await runtime.run(text)
        other = await runtime.run('await pay(amount=2, idempotency_key="order-7")')
        wrong = await runtime.run("key = [][:1]\nawait pay(amount=2, idempotency_key=key)")

    assert (outcome.stdout, again.stdout, seen) == ("paid 1 paid 1\n", "paid 1 paid 1\n", ["order-7"])
    assert [(call.cached, call.arguments) for call in outcome.calls] == [
        (False, {"amount": 1, "idempotency_key": "order-7"}),
        (True, {"amount": 1, "idempotency_key": "order-7"}),
    ]
    assert [one.problem and one.problem.message for one in (other, wrong)] == [
        "ToolError: 'pay' was called before with idempotency key 'order-7' and other arguments",
        "ToolError: 'pay' got a bad argument: idempotency_key must be a text that is not empty, got []",
    ]


async def test_an_argument_of_that_name_stays_the_tools_own() -> None:
    def send(idempotency_key: str) -> str:
        """Sends."""
        return idempotency_key

    async with Runtime([send]) as runtime:
        outcome = await runtime.run("print(await send(idempotency_key='k'), await send(idempotency_key='k'))")

    assert (outcome.stdout, [call.cached for call in outcome.calls]) == ("k k\n", [False, False])


async def test_a_worker_of_the_orchestrator_knows_its_key_and_a_definition_says_cache_and_retry() -> None:
    keys: list[str | None] = []
    catalog = ToolCatalog()
    city = ToolParameter(name="city", type="string", required=True)
    catalog.add_tool(ToolDefinition(name="weather", parameters=[city], cache_seconds=60))
    catalog.add_tool(ToolDefinition(name="order", parameters=[city], retry="never"))
    async with ProgrammaticToolExecutor(catalog) as executor:

        async def weather(payload: dict[str, str]) -> str:
            keys.append(call_context().idempotency_key)
            return payload["city"]

        def order(payload: dict[str, str]) -> str:
            keys.append(call_context().idempotency_key)
            raise ConnectionError(payload["city"])

        executor.register_worker("weather", weather)
        executor.register_worker("order", order)
        result = await executor.execute("""
print(await weather(city="Rome"), await weather(city="Rome"))
await order(city="Oslo")
""")

    assert (result["output"], len(keys)) == ("Rome Rome\n", 2)
    assert [str(key).partition(":")[2] for key in keys] == ["1", "3"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": "often"}, "tool 'a' has no known retry 'often'; safe, always, never"),
        ({"cache_seconds": -1}, "cache_seconds of tool 'a' must be 0 or more, got -1"),
    ],
)
def test_a_wrong_word_in_a_definition_is_one_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        ToolDefinition(name="a", **options)

    assert str(raised.value) == message
