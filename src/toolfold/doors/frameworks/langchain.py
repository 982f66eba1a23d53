"""LangChain's `StructuredTool`, over one runtime."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolfold.doors.frameworks.entry import ENTRY_NAME, Entry, program_text
from toolfold.doors.frameworks.render import Shown, shown_crash, shown_outcome
from toolfold.errors import EngineCrashed, UsageError
from toolfold.models import Limits, Outcome
from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool


def langchain_tool(
    runtime: Runtime, *, name: str = ENTRY_NAME, session: str = "", limits: Limits | None = None
) -> StructuredTool:
    """This runtime as a tool for LangChain and LangGraph agents.

    Its message has the text that the model reads, and as artifact the whole `Outcome`. A program that did
    not finish is a message with the status `error`. Make it where the runtime was entered: `invoke` works
    from other threads while that event loop runs, `ainvoke` within it.

    Args:
        runtime: Runs the programs; must be entered when the tool is called.
        name: What the model calls the tool.
        session: Keeps names and files between the programs; empty keeps nothing.
        limits: Of each program; the runtime's own unless given.

    Raises:
        UsageError: LangChain is not installed.
    """
    # Imported here: `from toolfold import *` must work without the extra.
    try:
        from langchain_core.tools import StructuredTool, ToolException  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed; install toolfold[langchain]") from error

    entry = Entry(runtime=runtime, name=name, session=session, limits=limits)
    loop = _running_loop()

    # Any: LangChain hands over what the model wrote, and does not hold it against a schema that is a dict.
    async def execute(**arguments: Any) -> tuple[Any, Outcome]:
        text = program_text(arguments)
        if isinstance(text, Shown):
            raise ToolException(text.text)
        try:
            outcome = await entry.run(text)
        except EngineCrashed as error:
            raise ToolException(shown_crash(error).text) from error
        shown = shown_outcome(outcome)
        if shown.has_failed:
            raise ToolException(_content(shown))
        return _content(shown), outcome

    # Any: the same.
    def execute_elsewhere(**arguments: Any) -> tuple[Any, Outcome]:
        if loop is None or not loop.is_running() or _running_loop() is loop:
            raise UsageError(f"{name!r} runs in the event loop of its runtime; call ainvoke there")
        return asyncio.run_coroutine_threadsafe(execute(**arguments), loop).result()

    return StructuredTool(
        name=name,
        description=entry.description(),
        args_schema=entry.schema(),
        func=execute_elsewhere,
        coroutine=execute,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


# Any: content of a LangChain message, text or its standard blocks.
def _content(shown: Shown) -> Any:
    if not shown.images:
        return shown.text
    pictures = [{"type": "image", "base64": one.base64, "mime_type": one.mime} for one in shown.images]
    return [{"type": "text", "text": shown.text}, *pictures]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
