"""The commands and their options, and the one place where an error becomes a line and an exit code."""

import atexit
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

import toolfold
from toolfold.doors.cli.configured import ApiOption, EngineOption
from toolfold.doors.cli.exits import Exit, exit_of_error
from toolfold.doors.cli.ledger import ledger_app
from toolfold.doors.cli.libraries import libraries_app
from toolfold.doors.cli.runs import runs_app
from toolfold.doors.cli.serve import serve_command
from toolfold.doors.cli.tools import tools_app
from toolfold.errors import ToolfoldError

app = typer.Typer(
    name="toolfold",
    help="Run programs that language models write, in a sandbox, with your tools.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(tools_app, name="tools")
app.add_typer(runs_app, name="runs")
app.add_typer(ledger_app, name="ledger")
app.add_typer(libraries_app, name="libraries")
app.command("serve")(serve_command)


def main() -> NoReturn:
    """The command `toolfold`; leaves the process."""
    code = run_command(sys.argv[1:])
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        # Python would wait for them, but a tool that does not come back cannot be stopped, and the outcome is out.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run_command(arguments: Sequence[str]) -> int:
    """One command line in, its exit code out; every error is one line on stderr."""
    try:
        code = typer.main.get_command(app).main(args=list(arguments), prog_name="toolfold", standalone_mode=False)
    except typer.TyperException as error:
        return _complain(error.format_message().replace("Value error, ", "").rstrip("."), Exit.USAGE)
    except ToolfoldError as error:
        return _complain(str(error), exit_of_error(error))
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    # The last line of defence: whatever else is wrong is our mistake, and still one line.
    except Exception as error:
        if os.environ.get("TOOLFOLD_DEBUG"):
            raise
        hint = "this is a bug in toolfold; set TOOLFOLD_DEBUG=1 to see where"
        return _complain(f"{type(error).__name__}: {error} ({hint})", Exit.INTERNAL)
    return int(code or 0)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a number of seconds") from error


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"toolfold {toolfold.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(Exit.USAGE)


@app.command("run")
def _run(
    program: Annotated[str, typer.Argument(metavar="FILE|-", help="The program; `-` reads it from stdin.")],
    tools: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE.py|MODULE", help="Tools for the program: its `@tool` objects. Repeatable."),
    ] = None,
    api: ApiOption = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The config; the nearest toolfold.yaml from here upwards unless given."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(parser=_seconds, metavar="SECONDS", help="Wall clock; the config's, or 120, unless given."),
    ] = None,
    engine: EngineOption = None,
    isolation: Annotated[
        Literal["namespace", "landlock", "none"] | None,
        typer.Option(help="How the process engine is walled in; the config's, or namespace, unless given."),
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option(metavar="PATH", help="Put this file into /mnt/data. Repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the files that the program made into DIR.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the whole outcome as one JSON object.")] = False,
    accept_no_isolation: Annotated[
        bool,
        typer.Option("--i-accept-that-programs-can-do-anything", help="Needed for `--isolation none`."),
    ] = False,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL|memory", help="Where it is recorded; the config's, or in your state folder, unless given."
        ),
    ] = None,
) -> int:
    """Run one program. Its stdout is this command's stdout.

    Exit codes: 0 finished, 1 the program failed, 2 rejected by the check or wrong usage,
    3 isolation not available, 4 timeout or limit, 130 interrupted.
    """
    # Imported here: `--help`, `--version` and `doctor` start without the runtime.
    from toolfold.doors.cli.run import RunOptions, run_program  # noqa: PLC0415

    options = RunOptions(
        program=program,
        tools=tuple(tools or ()),
        apis=tuple(api or ()),
        timeout_seconds=timeout,
        engine=engine,
        isolation=isolation,
        files=tuple(file or ()),
        out=out,
        as_json=json,
        accept_no_isolation=accept_no_isolation,
        ledger=ledger,
        config=config,
    )
    return run_program(options)


@app.command("doctor")
def _doctor(
    json: Annotated[bool, typer.Option("--json", help="Print the diagnosis as one JSON object.")] = False,
    require: Annotated[
        Literal["namespace", "landlock", "none"], typer.Option(help="The tier that this machine must be able to give.")
    ] = "namespace",
) -> int:
    """Try every isolation layer and a set of attacks on this machine; exit 3 when the tier is not available."""
    # Imported here for the same reason: a diagnosis needs the engine, a run's help does not.
    from toolfold.doors.cli.doctor import diagnose  # noqa: PLC0415

    return diagnose(as_json=json, required=require)


@app.command("mcp")
def _mcp(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The config; the nearest toolfold.yaml from here upwards unless given."),
    ] = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve streamable HTTP at /mcp instead of stdio.")
    ] = None,
    import_: Annotated[
        list[Path] | None,
        typer.Option(
            "--import",
            metavar="PATH",
            help="Also bridge the servers in this file of Claude Code, Claude Desktop, Cursor or VS Code. Repeatable.",
        ),
    ] = None,
    callback: Annotated[
        bool,
        typer.Option("--callback", help="Also serve `programmatic_tool_calling`, which calls tools of the client."),
    ] = False,
) -> int:
    """Serve `execute_program` to an MCP client, over the servers of a config. Stdout is the protocol's."""
    # Imported here for the same reason: the config's models take a third of a second.
    from toolfold.doors.cli.mcp import mcp_command  # noqa: PLC0415

    return mcp_command(config, http, import_ or [], callback=callback)


@app.command("console")
def _console(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The config; the nearest toolfold.yaml from here upwards unless given."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 8420 unless given, 0 takes a free one.")
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="PATH|URL", help="What is shown; the config's, or in your state folder, unless given."),
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE.py|MODULE", help="Tools for running programs again. Repeatable."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Let people look, and do nothing.")] = False,
) -> int:
    """Open a page that shows every program live, takes decisions, and runs programs again."""
    # Imported here for the same reason.
    from toolfold.doors.cli.console import console_command  # noqa: PLC0415

    return console_command(config, port=port, ledger=ledger, tools=tools or [], read_only=read_only)


@app.command("init")
def _init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where toolfold.yaml is written.")] = Path(),
) -> int:
    """Write a toolfold.yaml with the servers of Claude Code and Desktop, Cursor and VS Code; overwrites nothing."""
    # Imported here for the same reason.
    from toolfold.doors.cli.init import init_command  # noqa: PLC0415

    return init_command(folder)


def _complain(message: str, code: int) -> int:
    print(f"toolfold: {' '.join(message.split())}", file=sys.stderr)
    return code
