"""Learning of reply shapes: `toolfold tools learn` calls read-only tools to see what they return."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolfold.errors import UsageError
from toolfold.interfaces.cli.commands.run import stdout_to_stderr
from toolfold.interfaces.cli.load_tools import load_tools
from toolfold.interfaces.cli.process import run_until_stopped
from toolfold.interfaces.cli.setup import choose_engine, nearest_config, open_for_command, runtime_factory
from toolfold.models import Json, Outcome, ToolSpec
from toolfold.prompts.python_stubs import prompt_text
from toolfold.runtime import Runtime
from toolfold.tools.reply_shapes import NEEDED_REPLIES

if TYPE_CHECKING:
    from toolfold.ledger.base import Ledger


def learn(
    requests: Sequence[str],
    specs: Sequence[ToolSpec],
    *,
    sources: Sequence[str],
    config: Path | None,
    ledger: str | None,
) -> int:
    """Call each tool as often as it takes, and print what it returned as a signature; exit 1 if one failed."""
    calls = [_call(request, specs) for request in requests]
    lines = [f"    await tools.{spec.python_name}(**{arguments!r})" for spec, arguments in calls]
    text = "\n".join([f"for _ in range({NEEDED_REPLIES}):", *lines])
    loaded_config = nearest_config(config) if config is not None or not sources else None
    learned: list[ToolSpec] = []
    with stdout_to_stderr():
        store = open_for_command(ledger, loaded_config)
        engine_arguments = choose_engine(loaded_config, engine=None, isolation=None, warm=1)
        make_runtime = partial(
            runtime_factory(loaded_config, text, Runtime),
            tools=load_tools(list(sources)),
            **engine_arguments,
            ledger=store,
        )
        outcome = run_until_stopped(_run(make_runtime, store, text, [spec for spec, _ in calls], learned))
    if isinstance(outcome, int):
        return outcome
    if outcome.status != "finished":
        raise UsageError(f"nothing was learned: {outcome.problem.message if outcome.problem else outcome.status}")
    print(prompt_text(learned), end="")
    return 0


def _call(request: str, specs: Sequence[ToolSpec]) -> tuple[ToolSpec, dict[str, Json]]:
    """`NAME` or `NAME={"argument": 1}`."""
    name, _, arguments_text = request.partition("=")
    spec = next((candidate for candidate in specs if name in (candidate.name, candidate.python_name)), None)
    if spec is None:
        raise UsageError(f"no tool {name!r}; 'toolfold tools list' lists all tools")
    if not spec.read_only:
        raise UsageError(f"tool {name!r} is not marked read-only, so it is not called; run a program that calls it")
    if spec.output_schema is not None:
        raise UsageError(f"tool {name!r} declares what it returns; there is nothing to learn")
    try:
        arguments = json.loads(arguments_text or "{}")
    except ValueError as error:
        raise UsageError(f"the arguments of {name!r} are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise UsageError(f"""the arguments of {name!r} must be a JSON object, as in {name}='{{"id": 1}}'""")
    return spec, arguments


# Any: the options of the runtime are bound already.
async def _run(
    make_runtime: Callable[..., Any], ledger: Ledger, text: str, specs: Sequence[ToolSpec], learned: list[ToolSpec]
) -> Outcome:
    try:
        async with make_runtime() as runtime:
            outcome: Outcome = await runtime.run(text)
            schemas = (await runtime.learned()).schemas(runtime.tools)
            learned += [replace(spec, output_schema=schemas.get(spec.name)) for spec in specs]
            return outcome
    finally:
        await ledger.close()
