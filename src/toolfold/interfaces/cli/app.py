"""Commands of the command line and their options."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

import toolfold
from toolfold.interfaces.cli.command_process import Exit, complain, handle_interrupts, run_guarded
from toolfold.interfaces.cli.commands.evaluate import eval_command
from toolfold.interfaces.cli.commands.libraries_and_ledger import ledger_app, libraries_app
from toolfold.interfaces.cli.commands.programs import programs_app
from toolfold.interfaces.cli.commands.runs import runs_app
from toolfold.interfaces.cli.commands.servers import console_command, serve_command
from toolfold.interfaces.cli.commands.tools import tools_app
from toolfold.interfaces.cli.shared_options import (
    AddressOption,
    ApiOption,
    ApiUrlOption,
    ConfigOption,
    EngineOption,
    JsonOption,
    OutOption,
    RecordOption,
    ToolsOption,
)

app = typer.Typer(
    name="toolfold", help="Run programs that language models write, in a sandbox, with your tools.",
    context_settings={"help_option_names": ["-h", "--help"]}, pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip
app.add_typer(tools_app, name="tools")
app.add_typer(runs_app, name="runs")
app.add_typer(programs_app, name="programs")
app.add_typer(ledger_app, name="ledger")
app.add_typer(libraries_app, name="libraries")
engines_app = typer.Typer(help="Prepare engines before their first program.", no_args_is_help=True)
app.add_typer(engines_app, name="engines")
app.command("serve")(serve_command)
app.command("console")(console_command)
app.command("eval")(eval_command)


def run_command(arguments: Sequence[str]) -> int:
    """One command line in, its exit code out; every error is one line on stderr."""
    return run_guarded(lambda: _read_and_run(arguments))


def _read_and_run(arguments: Sequence[str]) -> int:
    try:
        code = typer.main.get_command(app).main(args=list(arguments), prog_name="toolfold", standalone_mode=False)
    except typer.TyperException as error:
        return complain(error.format_message().replace("Value error, ", "").rstrip("."), code=Exit.USAGE)
    except typer.Abort:
        return Exit.INTERRUPTED
    return int(code or 0)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a number of seconds") from error


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"toolfold {toolfold.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(Exit.USAGE)


@app.command("run")
def _run(
    program: Annotated[
        str | None, typer.Argument(metavar="FILE|-", help="The program; `-` reads it from stdin.")
    ] = None,
    code: Annotated[str | None, typer.Option("-c", metavar="CODE", help="The program text, instead of FILE.")] = None,
    lang: Annotated[
        Literal["python", "bash"] | None,
        typer.Option(help="Language of the program. Default: bash for a FILE that ends in .sh, else python."),
    ] = None,
    tools: ToolsOption = None,
    apis: ApiOption = None,
    api_urls: ApiUrlOption = None,
    config: ConfigOption = None,
    timeout_seconds: Annotated[
        float | None,
        typer.Option(
            "--timeout", parser=_seconds, metavar="SECONDS", help="Wall-clock limit. Default: the config's, or 120."
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory limit, such as 1GiB. Default: the config's, or 512MiB.")
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", metavar="NAME=VALUE", help="Any other limit, such as calls=50 or data_bytes=1GiB. Repeatable."
        ),
    ] = None,
    engine: EngineOption = None,
    address: AddressOption = None,
    isolation: Annotated[
        Literal["namespace", "landlock", "none"] | None,
        typer.Option(help="How the process engine isolates the program. Default: the config's, or namespace."),
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--file", metavar="PATH", help="A file to put into /mnt/data. Repeatable.")
    ] = None,
    out: OutOption = None,
    as_json: JsonOption = False,
    is_verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print each tool call on stderr, as on a terminal, and the log.")
    ] = False,
    accept_no_isolation: Annotated[
        bool, typer.Option("--i-accept-that-programs-can-do-anything", help="Required for `--isolation none`.")
    ] = False,
    ledger: RecordOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve every call that needs approval.")] = False,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", help="Print the id and leave the program running; `toolfold runs wait ID` waits for it."
        ),
    ] = False,
) -> int:
    """Run a program and print its output.

    Exit codes: 0 finished, 1 the program failed, 2 rejected by the check or wrong usage,
    3 isolation not available, 4 timeout or limit, 130 interrupted.
    """
    values = locals()
    from toolfold.interfaces.cli.commands.run import run_program
    from toolfold.interfaces.cli.program_inputs import RunOptions

    return run_program(RunOptions.of(values))


@app.command("batch")
def _batch(
    programs: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="The programs, one JSON object per line.")],
    out: Annotated[
        Path,
        typer.Option(metavar="FILE.jsonl", help="Where to write results; programs that have one are not run again."),
    ],
    tools: ToolsOption = None,
    config: ConfigOption = None,
    timeout: Annotated[
        float | None,
        typer.Option(parser=_seconds, metavar="SECONDS", help="Wall-clock limit of each program. Default: 120."),
    ] = None,
    engine: EngineOption = None,
    address: AddressOption = None,
    in_flight: Annotated[
        int | None, typer.Option(min=1, help="How many programs run at a time. Default: twice the number of cores.")
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="PATH|URL|memory", help="Where to record the programs. By default they are not recorded."),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Run many programs. You can kill the command at any time; running it again continues where it stopped.

    Exit codes: 0 every program has a result, whatever it is; 2 wrong usage, 3 isolation not available,
    70 the sandbox failed, 130 interrupted.
    """
    from toolfold.interfaces.cli.commands.batch import run_batch

    return run_batch(
        programs, out=out, tools=tools or (), config=config, timeout_seconds=timeout, engine=engine, address=address,
        in_flight=in_flight, ledger=ledger, as_json=json,
    )  # fmt: skip


@app.command("doctor")
def _doctor(
    json: JsonOption = False,
    require: Annotated[
        Literal["namespace", "landlock", "none"],
        typer.Option(help="The isolation level that this machine must provide."),
    ] = "namespace",
    engine: Annotated[
        Literal["process", "wasm", "ray"],
        typer.Option(
            help="`wasm` compiles that engine if need be and examines it alone; `ray` examines every node of a cluster."
        ),
    ] = "process",
    address: AddressOption = None,
) -> int:
    """Test the isolation on this machine with real attacks. Exit 3 if the required level is not available."""
    from toolfold.interfaces.cli.commands.doctor import diagnose, diagnose_cluster, diagnose_wasm

    if engine == "wasm":
        return diagnose_wasm(as_json=json)
    if engine == "ray":
        return diagnose_cluster(address, as_json=json, required=require)
    return diagnose(as_json=json, required=require)


@engines_app.command("prepare")
def _prepare(
    engine: Annotated[Literal["wasm"], typer.Argument(metavar="ENGINE", help="`wasm` is the only one.")],
    json: JsonOption = False,
) -> int:
    """Compile the wasm engine's interpreter now, such as in an image build. Takes about a minute, once.

    TOOLFOLD_WASM_CACHE names the folder; the default is in the user's cache folder.
    """
    from toolfold.interfaces.cli.commands.doctor import prepare_engine

    return prepare_engine(engine, as_json=json)


@app.command("mcp")
def _mcp(
    config: ConfigOption = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve streamable HTTP at /mcp instead of stdio.")
    ] = None,
    import_: Annotated[
        list[Path] | None,
        typer.Option(
            "--import",
            metavar="PATH",
            help="Also bridge the servers in another client's config, such as .mcp.json. Repeatable.",
        ),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Put this file into the working directory of every program. Repeatable."),
    ] = None,
    callback: Annotated[
        bool,
        typer.Option("--callback", help="Also serve `programmatic_tool_calling`, which calls the client's tools."),
    ] = False,
) -> int:
    """Serve `execute_program` to an MCP client. Programs can call the tools of the servers in your config."""
    from toolfold.interfaces.cli.commands.mcp_options import mcp_command

    return mcp_command(config, http, import_ or [], files=file or [], callback=callback)


@app.command("init")
def _init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write toolfold.yaml to.")] = Path(),
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace an existing toolfold.yaml; the old one is kept as toolfold.yaml.bak."),
    ] = False,
    json: JsonOption = False,
) -> int:
    """Write a toolfold.yaml with the MCP servers of your other clients, such as Claude Code, Cursor and Codex."""
    from toolfold.interfaces.cli.commands.init import init_command

    handle_interrupts()
    return init_command(folder, force=force, as_json=json)
