"""Option types that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from toolfold.errors import UsageError
from toolfold.interfaces.cli.command_setup import DEFAULT_ENGINE


def engine_name(text: str) -> str:
    from toolfold.engines.registry import known_engine

    try:
        return known_engine(text)
    except UsageError as error:
        raise typer.BadParameter(str(error)) from error


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The config file. Default: the nearest toolfold.yaml in this or a parent folder."
    ),
]
ApiOption = Annotated[
    list[str] | None,
    typer.Option(
        "--api",
        metavar="[NAME=]SPEC",
        help="An OpenAPI document (file or URL) whose operations become tools. Repeatable.",
    ),
]
ApiUrlOption = Annotated[
    list[str] | None,
    typer.Option(
        "--api-base-url",
        metavar="[NAME=]URL",
        help="Where the requests of an --api go. Default: the server that its document names. Repeatable.",
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        parser=engine_name,
        metavar="NAME",
        help="Where the program runs: auto, process, wasm, monty, ray or an installed engine. "
        f"Default: the config's, or {DEFAULT_ENGINE}.",
    ),
]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option("--tools", metavar="FILE.py|MODULE", help="A Python file or module with tools. Repeatable."),
]
LedgerOption = Annotated[
    str | None,
    typer.Option(metavar="PATH|URL", help="The ledger. Default: the config's, or the one in your state folder."),
]
RecordOption = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|URL|memory",
        help="Where to record executions. Default: the config's ledger, or a file in your state folder.",
    ),
]
OutOption = Annotated[Path | None, typer.Option(metavar="DIR", help="Write the files that the program creates to DIR.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]
AddressOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="The Ray cluster for `--engine ray`. Default: the config's, or auto."),
]
