"""Agents as tools, asked through a real A2A server on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from a2a.helpers import get_data_parts, new_data_part, new_raw_part, new_text_message, new_text_part, new_url_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Task, TaskState, TaskStatus
from starlette.applications import Starlette

from toolfold.models import Call, Media, Reply, ToolSpec
from toolfold.sources.agent_tools import MESSAGE_SCHEMA, ask_agent
from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router
from toolfold.tools.tool import Tool

ANY_SCHEMA = {"type": "object"}


class Echo(AgentExecutor):
    """Does what the text of the message says."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        if text == "message":
            await event_queue.enqueue_event(new_text_message("a message"))
            return
        task = Task(
            id=context.task_id,
            context_id=context.context_id,
            status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
            history=[context.message],
        )
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        await self._work(text, get_data_parts(context.message.parts), context, updater)

    async def _work(self, text: str, data: list, context: RequestContext, updater: TaskUpdater) -> None:
        said = updater.new_agent_message([new_text_part("because")])
        match text:
            case "fail":
                await updater.failed(said)
            case "refuse":
                await updater.reject(said)
            case "ask":
                await updater.requires_input(said)
            case "wait":
                self.started.set()
                await asyncio.Event().wait()
            case "words":
                await updater.complete(said)
            case "parts":
                image = new_raw_part(b"\x89PNG", media_type="image/png", filename="dot.png")
                await updater.add_artifact([new_text_part("see"), image, new_url_part("https://x.example/y")])
                await updater.complete()
            case _ if data:
                await updater.add_artifact([new_data_part({"got": data[0], "parts": len(context.message.parts)})])
                await updater.complete()
            case _:
                await updater.add_artifact([new_text_part(f"you said {text}")])
                await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()
        self.stopped.set()


@asynccontextmanager
async def serving(agent: AgentExecutor, *, binding: str = "JSONRPC", streaming: bool = True) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        card = AgentCard(
            name="echo",
            description="Says what it was told.",
            version="1",
            supported_interfaces=[AgentInterface(url=f"{url}/a2a", protocol_binding=binding, protocol_version="1.0")],
            capabilities=AgentCapabilities(streaming=streaming),
            default_input_modes=["text/plain", "application/json"],
            default_output_modes=["text/plain", "application/json"],
            skills=[AgentSkill(id="echo", name="echo", description="Says it.", tags=["echo"])],
        )
        handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore(), agent_card=card)
        make = create_jsonrpc_routes if binding == "JSONRPC" else create_rest_routes
        prefix = {"rpc_url": "/a2a"} if binding == "JSONRPC" else {"path_prefix": "/a2a"}
        app = Starlette(routes=[*create_agent_card_routes(card), *make(handler, **prefix)])
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield url
        finally:
            server.should_exit = True
            await running


@pytest.fixture(params=["JSONRPC", "JSONRPC without streaming", "HTTP+JSON"])
async def echo(request: pytest.FixtureRequest) -> AsyncIterator[tuple[str, Echo]]:
    agent = Echo()
    binding, _, without = request.param.partition(" ")
    async with serving(agent, binding=binding, streaming=not without) as url:
        yield url, agent


def routed(url: str, *, input_schema=MESSAGE_SCHEMA, timeout_seconds: float | None = None) -> Router:
    spec = ToolSpec(
        name="echo", python_name="echo", description="", input_schema=input_schema, timeout_seconds=timeout_seconds
    )
    return Router(Catalog([Tool(spec=spec, call=ask_agent(url))]))


async def ask(url: str, **arguments: object) -> Reply:
    router = routed(url, input_schema=ANY_SCHEMA)
    return await router.serve(Call(id=1, tool="echo", arguments=arguments))


async def test_a_lone_text_goes_as_text_and_the_artifact_comes_back(echo) -> None:
    reply = await ask(echo[0], message="hello")

    assert reply == Reply(call_id=1, value="you said hello")


async def test_other_arguments_go_as_data_and_whole_numbers_stay_whole(echo) -> None:
    reply = await ask(echo[0], n=3, half=0.5, rows=[{"id": 7, "name": None}], picture=b"\x00\x01")

    assert reply == Reply(
        call_id=1, value={"got": {"n": 3, "half": 0.5, "rows": [{"id": 7, "name": None}]}, "parts": 2}
    )
    assert type(reply.value["got"]["n"]) is int


async def test_an_answer_may_be_a_message_a_status_or_several_parts(echo) -> None:
    replies = [await ask(echo[0], message=text) for text in ("message", "words", "parts")]

    assert [reply.value for reply in replies] == [
        "a message",
        "because",
        [
            "see",
            Media(kind="image", mime="image/png", data=b"\x89PNG", name="dot.png"),
            Media(kind="link", mime="", uri="https://x.example/y"),
        ],
    ]


async def test_a_task_that_does_not_complete_is_a_tool_error_with_the_agents_words(echo) -> None:
    errors = {text: (await ask(echo[0], message=text)).error for text in ("fail", "refuse", "ask")}

    assert errors == {
        "fail": "'echo' failed: the agent failed: because",
        "refuse": "'echo' failed: the agent refused: because",
        "ask": "'echo' failed: the agent asks for more; put it into the arguments: because",
    }


async def test_a_call_that_times_out_cancels_the_agents_task() -> None:
    agent = Echo()
    async with serving(agent) as url:
        router = routed(url, timeout_seconds=2)

        reply = await router.serve(Call(id=1, tool="echo", arguments={"message": "wait"}))

        assert reply.error == "'echo' timed out after 2 s"
        await agent.stopped.wait()
        assert len(agent.cancelled) == 1


async def test_many_questions_at_once_are_many_conversations() -> None:
    async with serving(Echo()) as url:
        router = routed(url)
        calls = [Call(id=n, tool="echo", arguments={"message": str(n)}) for n in range(1, 21)]

        replies = await asyncio.gather(*(router.serve(call) for call in calls))

    assert [reply.value for reply in replies] == [f"you said {n}" for n in range(1, 21)]


async def test_an_agent_that_is_not_there_says_so_without_an_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with serving(Echo()) as url:
        replies = [await ask(f"http://127.0.0.1:{port}", m="x"), await ask(f"{url}/elsewhere", m="x")]

    assert [reply.error for reply in replies] == [
        "'echo' failed: the agent cannot be reached: it shows no agent card",
        "'echo' failed: the agent cannot be reached: HTTP 404 instead of an agent card",
    ]


async def test_arguments_that_a2a_cannot_carry_are_refused_before_anything_is_sent() -> None:
    reply = await ask("http://127.0.0.1:9", rows=[b"x"], other=1)

    assert (
        reply.error
        == "arguments that an agent cannot take: Value b'x' has unexpected type <class 'bytes'> at Value.rows[0]"
    )
