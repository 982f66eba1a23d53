"""Tools that are found by searching, and called from programs or directly."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic_ai import Agent, DeferredToolRequests, ModelMessagesTypeAdapter, Tool, ToolReturn, UserError

from tests.interfaces.pydantic_ai.talk import Shared, Talk, calls, program, returns
from toolfold.pydantic_ai import AllowedCallers, CodeModeToolset, FunctionToolset, NestedApprovals, ToolSearchToolset

pytestmark = pytest.mark.asyncio(loop_scope="module")


def many(count: int, callers: AllowedCallers | None) -> FunctionToolset[Any]:
    """Tools like those of a large company, and one for invoices."""
    toolset: FunctionToolset[Any] = FunctionToolset()

    def make(number: int) -> None:
        async def tool(subject: str, amount: int = 1) -> dict[str, Any]:
            return {"number": number, "subject": subject, "amount": amount}

        words = f"Operation {number} of the department for paper clips, with all of its forms and stamps."
        toolset.add_function(tool, name=f"department_operation_{number}", description=words, allowed_callers=callers)

    for number in range(count - 1):
        make(number)

    @toolset.tool(allowed_callers=callers)
    async def list_open_invoices(customer: str) -> list[int]:
        """Invoices of one customer that are not paid yet."""
        return [len(customer), 40]

    return toolset


def sent(talk: Talk) -> list[tuple[str, str]]:
    """Each request as bytes that a provider would get: the list of tools, and the messages."""
    return [
        (
            json.dumps([[one.name, one.description, one.parameters_json_schema] for one in info.function_tools]),
            ModelMessagesTypeAdapter.dump_json(list(messages)).decode(),
        )
        for messages, info in talk.requests
    ]


SEARCH = calls(("search_tools", {"query": "unpaid invoices of a customer"}))
SUM = program("sum(await list_open_invoices(customer='ann'))")


async def test_an_embedder_finds_a_tool_that_shares_no_word_with_the_question(engine: Shared) -> None:
    def embedder(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0] if "invoices" in text or "debts" in text else [0.0, 1.0] for text in texts]

    search = ToolSearchToolset(wrapped=many(50, "code"), embedder=embedder)
    talk = Talk(calls(("search_tools", {"query": "who has debts"})), SUM, "done")

    result = await Agent(talk.model, toolsets=[CodeModeToolset(search, engine=engine)]).run("go")

    assert returns(result.all_messages())[1] == ("success", 43)


@pytest.mark.parametrize("callers", ["code", "both"])
@pytest.mark.parametrize("place", ["beside", "within"])
async def test_one_of_500_tools_is_found_and_called_from_code_and_the_prefix_stays_as_it_was(
    callers: AllowedCallers, place: str, engine: Shared
) -> None:
    search = ToolSearchToolset(wrapped=many(500, callers))
    toolsets: list[Any] = (
        [CodeModeToolset(search, engine=engine)]
        if place == "within"
        else [CodeModeToolset(FunctionToolset(), engine=engine), search]
    )
    talk = Talk(SEARCH, SUM, "done")

    result = await Agent(talk.model, toolsets=toolsets).run("go")

    assert [outcome for outcome, _ in returns(result.all_messages())] == ["success", "success"]
    assert returns(result.all_messages())[1][1] == 43
    requests = sent(talk)
    tools, first = requests[0]
    assert len(tools) / 4 < 2_000
    assert [one for one, _ in requests] == [tools] * 3
    assert [later.startswith(earlier[:-1]) for (_, earlier), (_, later) in pairwise(requests)] == [
        True,
        True,
    ]
    assert first.count("invoice") == 0


async def test_the_answer_has_the_signatures_and_says_how_to_call(engine: Shared) -> None:
    mixed: FunctionToolset[Any] = FunctionToolset()

    @mixed.tool(allowed_callers="code")
    def pay_invoice(number: int) -> bool:
        """Pay an invoice."""
        return True

    @mixed.tool(name="show-invoice")
    def show_invoice(number: int) -> str:
        """Show an invoice."""
        return f"invoice {number}"

    talk = Talk(calls(("search_tools", {"query": "invoice"})), calls(("show-invoice", {"number": 7})), "done")
    agent = Agent(
        talk.model, toolsets=[CodeModeToolset(FunctionToolset(), engine=engine), ToolSearchToolset(wrapped=mixed)]
    )

    result = await agent.run("go")

    assert returns(result.all_messages())[0] == snapshot(
        (
            "success",
            """\
call these in a program of `run_code`. Tools, as `name(argument: type, optional?: type) -> reply`; `{key: type}` is a dict. Call them with `await name(argument=value)`.
pay_invoice(number: int) -> bool
  Pay an invoice.

call these directly:
- show-invoice: Show an invoice.\
""",
        )
    )
    assert returns(result.all_messages())[1] == ("success", "invoice 7")
    assert [[tool.name for tool in info.function_tools] for _, info in talk.requests] == [
        ["run_code", "search_tools"],
        ["run_code", "search_tools", "show-invoice"],
        ["run_code", "search_tools", "show-invoice"],
    ]


async def test_a_tool_is_not_callable_before_it_is_found(engine: Shared) -> None:
    talk = Talk(SUM, SEARCH, SUM, "done")
    agent = Agent(talk.model, toolsets=[CodeModeToolset(ToolSearchToolset(wrapped=many(5, None)), engine=engine)])

    result = await agent.run("go")

    assert [outcome for outcome, _ in returns(result.all_messages())] == ["retried", "success", "success"]


async def test_what_was_found_is_still_there_in_the_next_run_of_another_agent(engine: Shared) -> None:
    def agent(*says: Any) -> Agent[None, str]:
        search = ToolSearchToolset(wrapped=many(5, "code"))
        return Agent(Talk(*says).model, toolsets=[CodeModeToolset(FunctionToolset(), engine=engine), search])

    first = await agent(SEARCH, "found").run("go")
    history = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
    second = await agent(SEARCH, "found", SUM, "done").run("on", message_history=history)

    assert returns(second.all_messages())[-1] == ("success", 43)


async def list_open_invoices(customer: str) -> list[int]:
    """Invoices of one customer that are not paid yet."""
    return [len(customer), 40]


def find(query: str) -> Sequence[Any]:
    return [Tool(list_open_invoices, metadata={"allowed_callers": "code"})] if "invoice" in query else []


async def find_async(query: str) -> Sequence[Any]:
    return find(query)


@pytest.mark.parametrize("search_fn", [find, find_async])
async def test_a_search_function_gives_tools_and_nothing_is_wrapped(search_fn: Any, engine: Shared) -> None:
    talk = Talk(calls(("search_tools", {"query": "weather"})), SEARCH, SUM, "done")
    toolsets: list[Any] = [CodeModeToolset(FunctionToolset(), engine=engine), ToolSearchToolset(search_fn=search_fn)]

    result = await Agent(talk.model, toolsets=toolsets).run("go")

    assert returns(result.all_messages())[0] == ("success", "nothing was found; search with other words")
    assert returns(result.all_messages())[2] == ("success", 43)


async def test_a_tool_that_a_search_function_gave_is_asked_for_again_in_another_process(engine: Shared) -> None:
    def agent(*says: Any) -> Agent[None, str]:
        toolsets: list[Any] = [CodeModeToolset(FunctionToolset(), engine=engine), ToolSearchToolset(search_fn=find)]
        return Agent(Talk(*says).model, toolsets=toolsets)

    first = await agent(SEARCH, "found").run("go")
    second = await agent(SEARCH, "found", SUM, "done").run("on", message_history=first.all_messages())

    assert returns(second.all_messages())[-1] == ("success", 43)


async def test_a_search_function_gives_names_and_marked_functions(engine: Shared) -> None:
    hidden = many(5, "code")
    shelf: FunctionToolset[Any] = FunctionToolset()

    @shelf.tool(allowed_callers="code")
    def rebate(amount: int) -> int:
        return amount // 2

    search = ToolSearchToolset(search_fn=lambda query: ["list_open_invoices", rebate], wrapped=hidden)
    talk = Talk(SEARCH, program("await rebate(amount=sum(await list_open_invoices(customer='ann')))"), "done")

    result = await Agent(talk.model, toolsets=[CodeModeToolset(FunctionToolset(), engine=engine), search]).run("go")

    assert returns(result.all_messages())[1] == ("success", 21)


async def test_a_name_that_no_tool_has_is_the_hosts_mistake(engine: Shared) -> None:
    search = ToolSearchToolset(search_fn=lambda query: ["nobody"], wrapped=many(2, "code"))
    talk = Talk(SEARCH, "done")

    with pytest.raises(UserError) as caught:
        await Agent(talk.model, toolsets=[search]).run("go")

    assert str(caught.value) == ("the search function gave 'nobody', and no tool has that name; give the tool itself")


async def test_a_program_may_search_and_the_next_one_call_what_it_found(engine: Shared) -> None:
    talk = Talk(program("print(len(await search_tools(query='open invoices')) > 0)"), SUM, "done")
    agent = Agent(talk.model, toolsets=[CodeModeToolset(ToolSearchToolset(wrapped=many(5, None)), engine=engine)])

    result = await agent.run("go")

    assert returns(result.all_messages()) == [("success", "True"), ("success", 43)]


async def test_without_code_mode_found_tools_are_called_directly(engine: Shared) -> None:
    talk = Talk(SEARCH, calls(("list_open_invoices", {"customer": "ann"})), "done")

    result = await Agent(talk.model, toolsets=[ToolSearchToolset(wrapped=many(5, "both"))]).run("go")

    assert returns(result.all_messages())[1] == ("success", [3, 40])


async def test_a_found_tool_may_need_approval(engine: Shared) -> None:
    hidden: FunctionToolset[Any] = FunctionToolset()

    @hidden.tool(allowed_callers="code", requires_approval=True)
    def pay_invoice(number: int) -> str:
        """Pay an invoice."""
        return f"paid {number}"

    talk = Talk(calls(("search_tools", {"query": "pay"})), program("await pay_invoice(number=7)"), "done")
    agent: Agent[None, Any] = Agent(
        talk.model,
        toolsets=[CodeModeToolset(FunctionToolset(), engine=engine), ToolSearchToolset(wrapped=hidden)],
        capabilities=[NestedApprovals()],
        output_type=[str, DeferredToolRequests],
    )

    first = await agent.run("go")
    second = await agent.run(
        message_history=first.all_messages(), deferred_tool_results=first.output.build_results(approve_all=True)
    )

    assert returns(second.all_messages())[-1] == ("success", "paid 7")


async def test_pydantic_ais_own_search_works_with_code_mode(engine: Shared) -> None:
    hidden: FunctionToolset[Any] = FunctionToolset(defer_loading=True)

    @hidden.tool
    async def list_open_invoices(customer: str) -> list[int]:
        """Invoices of one customer that are not paid yet."""
        return [len(customer), 40]

    talk = Talk(SUM, calls(("search_tools", {"queries": ["invoices"]})), SUM, "done")

    result = await Agent(talk.model, toolsets=[CodeModeToolset(hidden, engine=engine)]).run("go")

    found = returns(result.all_messages())
    assert [outcome for outcome, _ in found] == ["retried", "success", "success"]
    assert found[2][1] == 43


async def test_a_tool_that_a_program_calls_may_reveal_others(engine: Shared) -> None:
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool
    def open_archive() -> ToolReturn[str]:
        return ToolReturn("open", tools=["read_archive"])

    @tools.tool(allowed_callers="direct", defer_loading=True)
    def read_archive(page: int) -> str:
        return f"page {page}"

    talk = Talk(program("await open_archive()"), calls(("read_archive", {"page": 3})), "done")

    result = await Agent(talk.model, toolsets=[CodeModeToolset(tools, engine=engine)]).run("go")

    assert returns(result.all_messages()) == [("success", "open"), ("success", "page 3")]
