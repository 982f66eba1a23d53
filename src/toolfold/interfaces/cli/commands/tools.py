"""Tools commands: `toolfold tools` lists and searches tools, writes stubs and learns reply shapes."""

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from toolfold.errors import UsageError
from toolfold.interfaces.cli.command_process import run_async, run_until_stopped, write_json
from toolfold.interfaces.cli.command_setup import choose_engine, nearest_config, open_for_command, runtime_factory
from toolfold.interfaces.cli.shared_options import ApiOption, ApiUrlOption, JsonOption, LedgerOption, ToolsOption
from toolfold.models import Json, Outcome, ToolSpec
from toolfold.outcome_views import value_as_json

if TYPE_CHECKING:
    from toolfold.config import Config

tools_app = typer.Typer(help="List or search tools, and write stubs for them.", rich_markup_mode=None)

_Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The config file. Default without --tools: the nearest toolfold.yaml in this or a parent folder.",
    ),
]
_Detail = Annotated[Literal["name", "signature", "full"], typer.Option(help="How much to print of each tool.")]


@tools_app.callback(invoke_without_command=True)
def _tools(
    context: typer.Context, tools: ToolsOption = None, api: ApiOption = None, api_base_url: ApiUrlOption = None,
    config: _Config = None, detail: _Detail = "name", json: JsonOption = False,
) -> int:  # fmt: skip
    command = context.invoked_subcommand
    if command is None:
        return _list(tools, api, api_base_url, config, detail, json)
    if tools or api or api_base_url or config is not None or detail != "name" or json:
        raise UsageError(f"write the options after {command!r}, as in 'toolfold tools {command} --tools tools.py'")
    return 0


@tools_app.command("list")
def _list(
    tools: ToolsOption = None, api: ApiOption = None, api_base_url: ApiUrlOption = None, config: _Config = None,
    detail: _Detail = "name", json: JsonOption = False,
) -> int:  # fmt: skip
    """List the tools, with the name that programs use and a short description."""
    from toolfold.tools.search import describe

    specs, _ = _load(tools, api, config, api_base_url)
    _print([describe(spec, detail) for spec in specs], as_json=json)
    return 0


@tools_app.command("search")
def _search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What the tool should do, in a few words.")],
    tools: ToolsOption = None, api: ApiOption = None, api_base_url: ApiUrlOption = None, config: _Config = None,
    detail: _Detail = "name",
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of results, best first.")] = 8,
    json: JsonOption = False,
) -> int:  # fmt: skip
    """Find tools by what they do; exit 1 if none matches."""
    from toolfold.config.build import embedder_of
    from toolfold.tools.search import Index, describe

    specs, loaded_config = _load(tools, api, config, api_base_url)
    embedder = None if loaded_config is None else embedder_of(loaded_config)
    hits = Index(specs, embedder=embedder).search(query, limit)
    _print([describe(hit.spec, detail) for hit in hits], as_json=json)
    return 0 if hits else 1


@tools_app.command("stubs")
def _stubs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to write tools/<domain>/<tool>.py to; created if missing.")
    ],
    tools: ToolsOption = None,
    api: ApiOption = None,
    api_base_url: ApiUrlOption = None,
    config: _Config = None,
    json: JsonOption = False,
) -> int:
    """Write one typed Python file per tool, for a model or a type checker to read."""
    from toolfold.prompts.python_stubs import write_tree

    specs, _ = _load(tools, api, config, api_base_url)
    try:
        files = write_tree(specs, folder)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"stubs cannot be written to {str(folder)!r}: {reason}; name another folder") from error
    if json:
        write_json({"tools": len(specs), "files": sorted(map(str, files))})
    else:
        print(f"{len(specs)} tools in {len(files)} files below {folder / 'tools'}")
    return 0


@tools_app.command("learn")
def _learn(
    names: Annotated[
        list[str], typer.Argument(metavar="TOOL[=JSON]...", help="The tools to call, with their arguments.")
    ],
    tools: ToolsOption = None,
    config: _Config = None,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> int:
    """Call read-only tools twice and remember what they return: keys and types, never values."""
    specs, loaded_config = _load(tools, None, config)
    learned = _learn_shapes(names, specs, sources=tools or (), config=loaded_config, ledger=ledger)
    if isinstance(learned, int):
        return learned
    from toolfold.prompts.python_stubs import prompt_text
    from toolfold.tools.search import describe

    if json:
        _print([describe(spec, "full") for spec in learned], as_json=True)
    else:
        print(prompt_text(learned), end="")
    return 0


def _load(
    sources: list[str] | None, apis: list[str] | None, path: Path | None, api_urls: list[str] | None = None
) -> "tuple[tuple[ToolSpec, ...], Config | None]":
    """What programs may call, the tools of a config's servers too; and the config."""
    from toolfold.interfaces.cli.load_tools import load_apis, load_tools
    from toolfold.tools.catalog import Catalog

    config = nearest_config(path) if path is not None or not (sources or apis) else None
    if not sources and not apis and config is None:
        raise UsageError("no tools to look at; name a file with --tools, as in --tools tools.py, or a --config")
    # What the user's file prints while it is imported is no part of the answer.
    with redirect_stdout(sys.stderr):
        loaded = [*load_tools(sources or []), *load_apis(apis or [], api_urls or [])]
        if config is None:
            return Catalog(loaded).specs, None
        from toolfold.config.build import runtime_settings
        from toolfold.interfaces.config_runtime import config_tools, permitted_tools

        policy = runtime_settings(config).policy
        return run_async(permitted_tools(config, [*loaded, *config_tools(config)], policy)), config


def _print(descriptions: list[dict[str, Json]], *, as_json: bool) -> None:
    if as_json:
        write_json(value_as_json(descriptions))
        return
    names = [str(description["name"]) for description in descriptions]
    width = min(40, max(map(len, names), default=0))
    for name, description in zip(names, descriptions, strict=True):
        if "signature" not in description:
            print(f"{name:<{width}}  {description['description']}".rstrip())
            continue
        print(f"# {name}\n{description['signature']}")
        if "input_schema" in description:
            hidden = ("name", "description", "domain", "signature")
            schemas = {key: value for key, value in description.items() if key not in hidden}
            print(json.dumps(schemas, ensure_ascii=False, indent=2, default=str) + "\n")


# --- learning of reply shapes: call read-only tools to see what they return ---------------------------


def _learn_shapes(
    requests: Sequence[str], specs: Sequence[ToolSpec], *, sources: Sequence[str], config: "Config | None",
    ledger: str | None,
) -> list[ToolSpec] | int:  # fmt: skip
    """Call each tool as often as it takes; the tools with what they returned, or the exit code of a stopped command."""
    from toolfold.interfaces.cli.commands.run import stdout_to_stderr
    from toolfold.interfaces.cli.load_tools import load_tools
    from toolfold.runtime import Runtime
    from toolfold.tools.reply_shapes import NEEDED_REPLIES

    calls = [_requested_call(request, specs) for request in requests]
    lines = [f"    await tools.{spec.python_name}(**{arguments!r})" for spec, arguments in calls]
    text = "\n".join([f"for _ in range({NEEDED_REPLIES}):", *lines])
    with stdout_to_stderr():
        store = open_for_command(ledger, config)
        engine_arguments = choose_engine(config, engine=None, isolation=None, warm=1)
        tools = load_tools(list(sources))

        async def learn() -> tuple[Outcome, list[ToolSpec]]:
            try:
                async with runtime_factory(config, text, Runtime)(
                    tools=tools, **engine_arguments, ledger=store
                ) as runtime:
                    outcome = await runtime.run(text)
                    schemas = (await runtime.catalog.learning.lessons()).schemas(runtime.tools)
                    return outcome, [replace(spec, output_schema=schemas.get(spec.name)) for spec, _ in calls]
            finally:
                await store.close()

        result = run_until_stopped(learn())
    if isinstance(result, int):
        return result
    outcome, learned = result
    if outcome.status != "finished":
        raise UsageError(f"nothing was learned: {outcome.problem.message if outcome.problem else outcome.status}")
    return learned


def _requested_call(request: str, specs: Sequence[ToolSpec]) -> tuple[ToolSpec, dict[str, Json]]:
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
