"""LangChain's `StructuredTool`, over one runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolfold.doors.frameworks.entry import Entry, program_text
from toolfold.doors.frameworks.render import Shown, shown_crash, shown_outcome
from toolfold.doors.frameworks.texts import ENTRY_NAME
from toolfold.errors import EngineCrashed, UsageError, install_extra
from toolfold.execution.described_files import DescribedFiles
from toolfold.models import File, Limits, Outcome
from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool


def langchain_tool(
    runtime: Runtime, *, name: str = ENTRY_NAME, session: str = "", limits: Limits | None = None, images: bool = False,
    files: Sequence[File] | DescribedFiles = (),
) -> StructuredTool:  # fmt: skip
    """This runtime as a tool for LangChain and LangGraph agents.

    Its message has the text that the model reads, and as artifact the whole `Outcome`. A program that did
    not finish is a message with the status `error`, and has its `Outcome`, too. Make it where the runtime
    was entered: `invoke` works from other threads while that event loop runs, `ainvoke` within it.

    Args:
        runtime: Runs the programs; must be entered when the tool is called.
        name: What the model calls the tool.
        session: Keeps names and files between the programs; empty keeps nothing.
        limits: Of each program; the runtime's own unless given.
        images: Show pictures to the model, for those that take them in a tool's message: Anthropic's, Google's, and
            OpenAI's with `use_responses_api=True`. OpenAI's Chat Completions refuse the whole request.
        files: In the working directory of every program; a session may change them. The model is told of their names,
            and, if they come from `await runtime.describe_files(files)`, of what is in them.

    Raises:
        UsageError: LangChain is not installed.
    """
    # Imported here: `from toolfold import *` must work without the extra.
    try:
        import langchain_core.tools  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed; {install_extra('langchain')}") from error

    from toolfold.doors.frameworks.langchain_program import (  # noqa: PLC0415 - the same
        ProgramFailed,
        ProgramTool,
        handle_failure,
    )

    given = DescribedFiles.of(files)
    entry = Entry(runtime=runtime, name=name, session=session, limits=limits, files=given)
    loop = _running_loop()

    # Any: LangChain hands over what the model wrote, and does not hold it against a schema that is a dict.
    async def execute(**arguments: Any) -> tuple[Any, Outcome]:
        text = program_text(arguments)
        if isinstance(text, Shown):
            raise ProgramFailed(text.text)
        try:
            outcome = await entry.run(text)
        except EngineCrashed as error:
            raise ProgramFailed(shown_crash(error).text) from error
        shown = shown_outcome(outcome)
        if shown.has_failed:
            raise ProgramFailed(_content(shown, images=images), outcome)
        return _content(shown, images=images), outcome

    # Any: the same.
    def execute_elsewhere(**arguments: Any) -> tuple[Any, Outcome]:
        if loop is None or not loop.is_running() or _running_loop() is loop:
            raise UsageError(f"{name!r} runs in the event loop of its runtime; call ainvoke there")
        return asyncio.run_coroutine_threadsafe(execute(**arguments), loop).result()

    return ProgramTool(
        name=name,
        description=entry.description(),
        args_schema=entry.schema(),
        func=execute_elsewhere,
        coroutine=execute,
        response_format="content_and_artifact",
        handle_tool_error=handle_failure,
    )


# Any: content of a LangChain message, text or its standard blocks.
def _content(shown: Shown, *, images: bool) -> Any:
    if not shown.images or not images:
        return shown.text_alone
    pictures = [{"type": "image", "base64": one.base64, "mime_type": one.mime} for one in shown.images]
    return [{"type": "text", "text": shown.text}, *pictures]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
