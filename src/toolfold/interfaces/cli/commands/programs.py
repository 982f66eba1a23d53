"""Programs commands: `toolfold programs` saves programs that worked, tests, runs and compares them."""

from __future__ import annotations

import json as json_module
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from toolfold.errors import UsageError
from toolfold.interfaces.cli.command_process import run_async, write_json
from toolfold.interfaces.cli.command_setup import choose_engine, nearest_config, open_for_command, runtime_factory
from toolfold.interfaces.cli.shared_options import ConfigOption, JsonOption, LedgerOption, ToolsOption

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.models import Json
    from toolfold.programs.library import ProgramFolders
    from toolfold.programs.proof import ProgramLibrary
    from toolfold.programs.saved_program import SavedProgram
    from toolfold.runtime import Runtime

_T = TypeVar("_T")
programs_app = typer.Typer(
    help="Save programs that worked as tools, and test, run or compare them.", rich_markup_mode=None
)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the saved program.")]
_Tenant = Annotated[str, typer.Option(metavar="TENANT", help="Whose programs. Default: the shared ones.")]


@programs_app.callback(invoke_without_command=True)
def _programs(context: typer.Context, config: ConfigOption = None, json: JsonOption = False) -> int:
    if context.invoked_subcommand is None:
        return _list(tools=None, config=config, tenant="", json=json)
    if config is not None or json:
        command = context.invoked_subcommand
        raise UsageError(f"write the options after {command!r}, as in 'toolfold programs {command} --json'")
    return 0


@programs_app.command("list")
def _list(
    tools: ToolsOption = None, config: ConfigOption = None, tenant: _Tenant = "", json: JsonOption = False
) -> int:
    """List saved and proposed programs, and what no longer fits their records."""

    async def read(runtime: Runtime) -> list[dict[str, Json]]:
        from toolfold.programs.proof import library_of

        library, specs = library_of(runtime), runtime.tools
        saved = [(program, library.problems(program, specs)) for program in library.programs(tenant)]
        proposed = [(program, ["it is proposed; accept or reject it"]) for program in library.proposals(tenant)]
        return [
            {
                "name": program.name,
                "version": program.version,
                "description": program.description,
                "signature": _signature(program),
                "tools": [*program.tools],
                "is_proposed": problems[:1] == ["it is proposed; accept or reject it"],
                "problems": problems,
            }
            for program, problems in [*saved, *proposed]
        ]

    rows = _with_runtime(read, tools, config)
    if json:
        write_json(rows)
        return 0
    if not rows:
        typer.echo("no saved programs; 'toolfold programs save ID --name NAME' saves one")
    for row in rows:
        typer.echo(f"{row['name']} (version {row['version']}): {row['description']}".rstrip(": "))
        typer.echo(f"    {row['signature']}")
        for problem in row["problems"]:
            typer.echo(f"    ! {problem}")
    return 0


@programs_app.command("save")
def _save(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of a finished execution, or the beginning of it; or `last`.")
    ],
    name: Annotated[str, typer.Option(help="What programs call it by, such as monthly_report.")],
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=JSON]",
            help="Make a literal of the program a parameter, by the name of a tool's argument or by its value: "
            "month, or month=3. Repeatable.",
        ),
    ] = None,
    description: Annotated[str, typer.Option(help="What it does, in a sentence.")] = "",
    tools: ToolsOption = None,
    config: ConfigOption = None,
    ledger: LedgerOption = None,
    tenant: _Tenant = "",
    json: JsonOption = False,
) -> int:
    """Save the program of an execution as a tool, with its calls and replies as its test."""
    wanted = dict(map(_parameter, parameter or ()))

    async def save(runtime: Runtime) -> tuple[SavedProgram, list[str]]:
        from toolfold.interfaces.cli.commands.runs import load
        from toolfold.programs.parameters import propose_parameters
        from toolfold.programs.proof import last_finished, save

        execution_id = await last_finished(runtime.executions.ledger, tenant) if id == "last" else id
        start = (await load(runtime.executions.ledger, execution_id)).start_record
        program = await save(
            runtime, start.execution_id, name, description=description, parameters=wanted, tenant=tenant
        )
        proposals = propose_parameters(start.program.text, start.tools)
        words = (f"{item.name}={json_module.dumps(item.value)}" for item in proposals if item.name not in wanted)
        return program, list(dict.fromkeys(words))

    program, proposals = _with_runtime(save, tools, config, ledger)
    if json:
        write_json({**_as_json(program), "proposed_parameters": proposals})
        return 0
    _print(program, "saved")
    if proposals and not wanted:
        typer.echo(f"literals that could be parameters: {', '.join(proposals)}; add --parameter NAME")
    return 0


@programs_app.command("test")
def _test(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all.")] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Also call the read-only tools for real and compare their replies.")
    ] = False,
    rerecord: Annotated[
        bool, typer.Option("--rerecord", help="Run the program for real and keep that run as its new record.")
    ] = False,
    tools: ToolsOption = None,
    config: ConfigOption = None,
    ledger: LedgerOption = None,
    tenant: _Tenant = "",
    json: JsonOption = False,
) -> int:
    """Test saved programs against their records; no tool is called. Exit 1 if one differs."""
    if rerecord and not names:
        raise UsageError("name the programs to record anew, as in 'toolfold programs test monthly_report --rerecord'")

    async def test(runtime: Runtime) -> list[dict[str, Json]]:
        from toolfold.programs import proof

        for name in names or () if rerecord else ():
            await proof.rerecord(runtime, name, tenant=tenant)
        verdicts = await proof.verify(runtime, names or (), tenant=tenant, live=live)
        return [{"name": one.name, "version": one.version, "problems": [*one.problems]} for one in verdicts]

    verdicts = _with_runtime(test, tools, config, ledger if rerecord else "memory")
    if json:
        write_json(verdicts)
    for verdict in () if json else verdicts:
        typer.echo(f"{'FAILED' if verdict['problems'] else 'ok':<8}{verdict['name']} (version {verdict['version']})")
        for problem in verdict["problems"]:
            typer.echo(f"        {problem}")
    return 1 if any(verdict["problems"] for verdict in verdicts) else 0


@programs_app.command("run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def _run(
    context: typer.Context, name: _Name, tools: ToolsOption = None, config: ConfigOption = None,
    ledger: LedgerOption = None, json: JsonOption = False,
) -> int:  # fmt: skip
    """Run a saved program with its arguments as options: --month 3 --department sales."""
    from toolfold.interfaces.cli.commands.run import run_program
    from toolfold.interfaces.cli.program_inputs import RunOptions

    library = _library(nearest_config(config))
    arguments = _arguments(library.get(name), context.args)
    text = f"await {name}(**{arguments!r})"
    if not json:  # whose outcome has the value
        text = f"value = {text}\nif value is not None:\n    print(value)"
    return run_program(
        RunOptions(code=text, tools=tuple(tools or ()), config=config, ledger=ledger, as_json=json),
        _with_library(library),
    )


@programs_app.command("accept")
def _accept(name: _Name, config: ConfigOption = None, tenant: _Tenant = "", json: JsonOption = False) -> int:
    """Accept a program that a model proposed; it can be called from then on."""
    program = _folders(config).accept(name, tenant)
    if json:
        write_json(_as_json(program))
    else:
        _print(program, "accepted")
    return 0


@programs_app.command("reject")
def _reject(name: _Name, config: ConfigOption = None, tenant: _Tenant = "", json: JsonOption = False) -> int:
    """Delete a program that a model proposed."""
    _folders(config).reject(name, tenant)
    return _say_done("rejected", name, as_json=json)


@programs_app.command("delete")
def _delete(name: _Name, config: ConfigOption = None, tenant: _Tenant = "", json: JsonOption = False) -> int:
    """Delete a saved program and its record; former versions stay."""
    _folders(config).remove(name, tenant)
    return _say_done("deleted", name, as_json=json)


def _say_done(what: str, name: str, *, as_json: bool) -> int:
    if as_json:
        write_json({what: name})
    else:
        typer.echo(f"{what} {name}")
    return 0


@programs_app.command("show")
def _show(name: _Name, config: ConfigOption = None, tenant: _Tenant = "", json: JsonOption = False) -> int:
    """Print a saved or proposed program as its file has it."""
    library = _folders(config)
    proposed = next((program for program in library.proposals(tenant) if program.name == name), None)
    program = proposed or library.get(name, tenant)
    if json:
        write_json(_as_json(program))
    else:
        typer.echo(program.to_file())
    return 0


@programs_app.command("diff")
def _diff(
    name: _Name,
    version: Annotated[int | None, typer.Option(min=1, help="Compare with this one. Default: the one before.")] = None,
    config: ConfigOption = None,
    tenant: _Tenant = "",
    json: JsonOption = False,
) -> int:
    """Show what changed since a former version."""
    text = _folders(config).diff(name, tenant, version=version)
    if json:
        write_json({"diff": text})
    else:
        typer.echo(text, nl=False)
    return 0


# --- setup ----------------------------------------------------------------------------------------


def _folders(path: Path | None) -> ProgramFolders:
    """Those of the config; else `programs` here."""
    from toolfold.programs.library import ProgramFolders

    config = nearest_config(path)
    if config is None:
        return ProgramFolders("programs")
    from toolfold.config.build import program_folders

    return ProgramFolders(*program_folders(config))


def _library(config: Config | None) -> ProgramLibrary:
    from toolfold.programs.proof import ProgramLibrary

    if config is None:
        return ProgramLibrary("programs")
    from toolfold.config.build import program_folders, program_library

    return program_library(config) or ProgramLibrary(*program_folders(config))


def _with_runtime(
    use: Callable[[Runtime], Awaitable[_T]], tools: Sequence[str] | None, path: Path | None,
    ledger: str | None = "memory",
) -> _T:  # fmt: skip
    """What `use` gives, in a runtime with all tools, once every server has connected or failed."""
    from toolfold.interfaces.cli.commands.run import stdout_to_stderr
    from toolfold.interfaces.cli.load_tools import load_tools
    from toolfold.interfaces.config_runtime import CONNECT_SECONDS, BridgedRuntime
    from toolfold.runtime import Runtime

    config = nearest_config(path)
    library = _library(config)
    logging.getLogger("toolfold.programs").setLevel(logging.ERROR)  # these commands print what it would warn of

    async def run() -> _T:
        store = open_for_command(ledger, config)
        make = runtime_factory(config, "tools", Runtime)
        engine = choose_engine(config, engine=None, isolation=None, warm=1)
        try:
            async with make(
                tools=load_tools(list(tools or ())), **engine, ledger=store, interface="cli", programs=library
            ) as runtime:
                if isinstance(runtime, BridgedRuntime):
                    await runtime.settled(timeout_seconds=CONNECT_SECONDS)
                return await use(runtime)
        finally:
            await store.close()

    with stdout_to_stderr():
        return run_async(run())


def _with_library(library: ProgramLibrary) -> Callable[..., Runtime]:
    from toolfold.execution.request import change_settings
    from toolfold.runtime import Runtime

    # Any: the keywords of `Runtime`.
    def make(*, settings: Any, **keywords: Any) -> Runtime:
        return Runtime(settings=change_settings(settings, {"programs": library}), **keywords)

    return make


def _parameter(text: str) -> tuple[str, Any]:
    """`month` or `month=3`; what is no JSON is text."""
    name, has_value, value = text.partition("=")
    return name, _json(value) if has_value else None


def _json(text: str) -> Any:
    try:
        return json_module.loads(text)
    except ValueError:
        return text


def _arguments(program: SavedProgram, words: Sequence[str]) -> dict[str, Json]:
    """`--month 3` or `--month=3`, by the types of the program's parameters."""
    arguments: dict[str, Json] = {}
    remaining = iter(words)
    for word in remaining:
        option, has_value, text = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if not option.startswith("--") or name not in program.parameters:
            names = ", ".join(f"--{name}" for name in program.parameters) or "none"
            raise UsageError(f"{program.name!r} has no option {word!r}; its options: {names}")
        value = text if has_value else next(remaining, None)
        if value is None:
            raise UsageError(f"option {option!r} needs a value")
        is_text = program.parameters[name].get("type") == "string"
        arguments[name] = value if is_text else _json(value)
    return arguments


def _as_json(program: SavedProgram) -> dict[str, Json]:
    import msgspec

    fields: dict[str, Json] = msgspec.to_builtins(program)
    return fields


def _print(program: SavedProgram, done: str) -> None:
    typer.echo(f"{done} version {program.version}: {_signature(program)}")


def _signature(program: SavedProgram) -> str:
    from toolfold.prompts.python_stubs import signature

    lines = signature(program.as_tool().spec).split("\n")
    return next(line for line in lines if line.startswith("async def")).removeprefix("async def ").rstrip(":")
