"""Tools commands: `toolfold tools` lists and searches tools, writes stubs and learns reply shapes."""

import asyncio
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from toolfold.errors import UsageError
from toolfold.interfaces.cli.options import ApiOption
from toolfold.models import Json, ToolSpec

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.tools.embedding import Embedder
    from toolfold.tools.tool import Tool

tools_app = typer.Typer(help="List or search tools, and write stubs for them.", rich_markup_mode=None)

_Sources = Annotated[
    list[str] | None,
    typer.Option("--tools", metavar="FILE.py|MODULE", help="A Python file or module with tools. Repeatable."),
]
_Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The config file. Default without --tools: the nearest toolfold.yaml in this or a parent folder.",
    ),
]
_Detail = Annotated[Literal["name", "signature", "full"], typer.Option(help="How much to print of each tool.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@tools_app.callback(invoke_without_command=True)
def _tools(
    context: typer.Context,
    tools: _Sources = None,
    api: ApiOption = None,
    config: _Config = None,
    detail: _Detail = "name",
    json: _AsJson = False,
) -> int:
    command = context.invoked_subcommand
    if command is None:
        return _list(tools, api, config, detail, json)
    if tools or api or config is not None or detail != "name" or json:
        raise UsageError(f"write the options after {command!r}, as in 'toolfold tools {command} --tools tools.py'")
    return 0


@tools_app.command("list")
def _list(
    tools: _Sources = None,
    api: ApiOption = None,
    config: _Config = None,
    detail: _Detail = "name",
    json: _AsJson = False,
) -> int:
    """List the tools, with the name that programs use and a short description."""
    # Imported here: `--help` starts without reading schemas.
    from toolfold.tools.search import describe  # noqa: PLC0415

    _print([describe(spec, detail) for spec in _specs(tools, api, config)], as_json=json)
    return 0


@tools_app.command("search")
def _search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What the tool should do, in a few words.")],
    tools: _Sources = None,
    api: ApiOption = None,
    config: _Config = None,
    detail: _Detail = "name",
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of results, best first.")] = 8,
    json: _AsJson = False,
) -> int:
    """Find tools by what they do; exit 1 if none matches."""
    # Imported here for the same reason.
    from toolfold.tools.search import Index, describe  # noqa: PLC0415

    hits = Index(_specs(tools, api, config), embedder=_embedder(tools, api, config)).search(query, limit)
    _print([describe(hit.spec, detail) for hit in hits], as_json=json)
    return 0 if hits else 1


@tools_app.command("stubs")
def _stubs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to write tools/<domain>/<tool>.py to; created if missing.")
    ],
    tools: _Sources = None,
    api: ApiOption = None,
    config: _Config = None,
) -> int:
    """Write one typed Python file per tool, for a model or a type checker to read."""
    # Imported here for the same reason.
    from toolfold.prompts.python_stubs import write_tree  # noqa: PLC0415

    specs = _specs(tools, api, config)
    try:
        files = write_tree(specs, folder)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"stubs cannot be written to {str(folder)!r}: {reason}; name another folder") from error
    print(f"{len(specs)} tools in {len(files)} files below {folder / 'tools'}")
    return 0


@tools_app.command("learn")
def _learn(
    names: Annotated[
        list[str], typer.Argument(metavar="TOOL[=JSON]...", help="The tools to call, with their arguments.")
    ],
    tools: _Sources = None,
    config: _Config = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The ledger. Default: the config's, or the one in your state folder."),
    ] = None,
) -> int:
    """Call read-only tools twice and remember what they return: keys and types, never values."""
    # Imported here for the same reason.
    from toolfold.interfaces.cli.commands.tools_learn import learn  # noqa: PLC0415

    return learn(names, _specs(tools, None, config), sources=tools or (), config=config, ledger=ledger)


def _specs(sources: list[str] | None, apis: list[str] | None, config: Path | None) -> tuple[ToolSpec, ...]:
    # Imported here for the same reason.
    from toolfold.interfaces.cli.load_tools import load_apis, load_tools  # noqa: PLC0415
    from toolfold.tools.catalog import Catalog  # noqa: PLC0415

    loaded_config = _find_config(sources, apis, config)
    if not sources and not apis and loaded_config is None:
        raise UsageError("no tools to look at; name a file with --tools, as in --tools tools.py, or a --config")
    # What the user's file prints while it is imported is no part of the answer.
    with redirect_stdout(sys.stderr):
        loaded = [*load_tools(sources or []), *load_apis(apis or [])]
        return Catalog(loaded).specs if loaded_config is None else _config_specs(loaded_config, loaded)


def _embedder(sources: list[str] | None, apis: list[str] | None, config: Path | None) -> "Embedder | None":
    # Imported here for the same reason.
    from toolfold.config.build import embedder_of  # noqa: PLC0415

    loaded_config = _find_config(sources, apis, config)
    return None if loaded_config is None else embedder_of(loaded_config)


def _find_config(sources: list[str] | None, apis: list[str] | None, config: Path | None) -> "Config | None":
    # Imported here for the same reason.
    from toolfold.interfaces.cli.setup import nearest_config  # noqa: PLC0415

    return nearest_config(config) if config is not None or not (sources or apis) else None


def _config_specs(config: "Config", loaded: "list[Tool]") -> tuple[ToolSpec, ...]:
    """What programs may call under this config, its servers' tools too."""
    # Imported here for the same reason.
    from toolfold.config.build import runtime_options  # noqa: PLC0415
    from toolfold.interfaces.cli.setup import local_tools  # noqa: PLC0415
    from toolfold.interfaces.library import permitted_tools  # noqa: PLC0415

    local = [*loaded, *local_tools(config)]
    return asyncio.run(permitted_tools(config, local, runtime_options(config)["policy"]))


def _print(descriptions: list[dict[str, Json]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(descriptions, ensure_ascii=False, indent=2, default=str))
        return
    names = [str(description["name"]) for description in descriptions]
    width = min(40, max(map(len, names), default=0))
    for name, description in zip(names, descriptions, strict=True):
        if "signature" not in description:
            print(f"{name:<{width}}  {description['description']}".rstrip())
            continue
        print(f"# {name}\n{description['signature']}")
        if "input_schema" in description:
            print(json.dumps(_schemas(description), ensure_ascii=False, indent=2, default=str) + "\n")


def _schemas(description: dict[str, Json]) -> dict[str, Json]:
    return {
        key: value for key, value in description.items() if key not in ("name", "description", "domain", "signature")
    }
