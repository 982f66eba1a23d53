"""Adapter for LangChain: a `StructuredTool` over one runtime, and LangChain tools as tools of programs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from toolfold.errors import EngineCrashed, UsageError, install_extra
from toolfold.execution.described_files import DescribedFiles
from toolfold.interfaces.frameworks.program_tool import (
    ENTRY_NAME,
    Entry,
    ModelAnswer,
    render_crash,
    render_outcome,
)
from toolfold.models import AllowedCallers, File, Limits, Outcome, ToolSpec
from toolfold.runtime import Runtime, running_loop
from toolfold.tools.tool import Tool, python_name

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ModuleNotFoundError as error:
    raise UsageError(f"{error.name!r} is not installed; {install_extra('langchain')}") from error


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
    """
    entry = Entry(runtime=runtime, name=name, session=session, limits=limits, files=DescribedFiles.of(files))
    loop = running_loop()

    # Any: LangChain hands over what the model wrote, and does not hold it against a schema that is a dict.
    async def execute(**arguments: Any) -> tuple[Any, Outcome]:
        program = entry.program(arguments)
        if isinstance(program, ModelAnswer):
            raise ProgramFailed(program.text)
        text, options = program
        try:
            outcome = await runtime.run(text, options=options)
        except EngineCrashed as error:
            raise ProgramFailed(render_crash(error).text) from error
        answer = render_outcome(outcome)
        if answer.has_failed:
            raise ProgramFailed(_content(answer, images=images), outcome)
        return _content(answer, images=images), outcome

    # Any: the same.
    def execute_elsewhere(**arguments: Any) -> tuple[Any, Outcome]:
        if loop is None or not loop.is_running() or running_loop() is loop:
            raise UsageError(f"{name!r} runs in the event loop of its runtime; call ainvoke there")
        return asyncio.run_coroutine_threadsafe(execute(**arguments), loop).result()

    return ProgramTool(
        name=name, description=entry.description(), args_schema=entry.schema, func=execute_elsewhere, coroutine=execute,
        response_format="content_and_artifact", handle_tool_error=handle_failure,
    )  # fmt: skip


def from_langchain(tool: BaseTool, *, domain: str = "", allowed_callers: AllowedCallers = "both") -> Tool:
    """A LangChain tool under its own name; its callbacks and its handling of errors stay in force."""
    definition = convert_to_openai_tool(tool)["function"]

    # Any: arguments are what the tool takes, replies what it returns.
    async def call(arguments: Mapping[str, Any]) -> Any:
        return await tool.ainvoke(dict(arguments))

    spec = ToolSpec(
        name=tool.name, python_name=python_name(tool.name), domain=domain,
        description=definition.get("description", ""), input_schema=definition.get("parameters") or {"type": "object"},
        allowed_callers=allowed_callers, source="langchain",
    )  # fmt: skip
    return Tool(spec=spec, call=call)


# Any: content of a LangChain message, text or its standard blocks.
def _content(answer: ModelAnswer, *, images: bool) -> Any:
    if not answer.images or not images:
        return answer.text_alone
    pictures = [{"type": "image", "base64": image.base64, "mime_type": image.mime} for image in answer.images]
    return [{"type": "text", "text": answer.text}, *pictures]


# ----------------------------------------------------------------------------------------------------
# A `StructuredTool` whose failed calls keep their artifact. Imports LangChain, so import it where that is there.

_failed_outcomes: ContextVar[list[Outcome] | None] = ContextVar("toolfold_langchain_outcome", default=None)


class ProgramFailed(ToolException):
    """What the model reads of a program that did not finish, and its outcome if it has one."""

    # Any: content of a LangChain message, text or its standard blocks.
    def __init__(self, content: Any, outcome: Outcome | None = None) -> None:
        super().__init__(content)
        self.outcome = outcome


# Any: the same.
def handle_failure(error: ToolException) -> Any:
    """For `handle_tool_error`: LangChain calls it in the context of `run` or `arun`, and drops the artifact."""
    outcomes, outcome = _failed_outcomes.get(), getattr(error, "outcome", None)
    if outcomes is not None and outcome is not None:
        outcomes.append(outcome)
    return error.args[0]


class ProgramTool(StructuredTool):
    """Adds to the message of a failed call what its handler noted."""

    # Any: arguments and results are LangChain's.
    def run(self, *args: Any, **options: Any) -> Any:
        with _collect_outcomes() as outcomes:
            return _with_artifact(super().run(*args, **options), outcomes)

    # Any: the same.
    async def arun(self, *args: Any, **options: Any) -> Any:
        with _collect_outcomes() as outcomes:
            return _with_artifact(await super().arun(*args, **options), outcomes)


@contextmanager
def _collect_outcomes() -> Iterator[list[Outcome]]:
    outcomes: list[Outcome] = []
    token = _failed_outcomes.set(outcomes)
    try:
        yield outcomes
    finally:
        _failed_outcomes.reset(token)


# Any: without a tool call's id the result is the bare content.
def _with_artifact(result: Any, outcomes: list[Outcome]) -> Any:
    if isinstance(result, ToolMessage) and outcomes:
        result.artifact = outcomes[-1]
    return result
