"""`toolfold libraries` and `toolfold ledger`: sets of packages for programs, and the ledger's encryption key."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from toolfold.errors import EngineUnavailable, UsageError
from toolfold.interfaces.cli.command_process import Exit, handle_interrupts, run_async, write_json
from toolfold.interfaces.cli.command_setup import KEY_VARIABLE, nearest_config
from toolfold.interfaces.cli.shared_options import ConfigOption, JsonOption, LedgerOption

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.models import InstalledSet


_NONE: Final = "the config lists no packages"

libraries_app = typer.Typer(help="Manage the packages that programs can import.", no_args_is_help=True)


@libraries_app.command("sync")
def _sync(
    config: ConfigOption = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Use the newest versions and ignore the lock file.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Install the wheels that libraries.packages lists, and write a lock file beside the config.

    pip's settings decide where packages come from. If anything fails, the installed packages stay in use.
    """
    from toolfold.config.library_sets import lock_of, requested_sets
    from toolfold.libraries import sync

    loaded_config = _config(config)
    requirements = requested_sets(loaded_config)
    if not requirements:
        raise UsageError("the config lists no packages; add them as libraries: {packages: [networkx]}")
    lock = lock_of(loaded_config)
    handle_interrupts()
    synced_sets = sync(
        requirements, lock, upgrade=upgrade, try_out=lambda installed_set: _try_preload(loaded_config, installed_set)
    )
    if json:
        sets = {
            synced_set.name: {
                "wheels": [{"name": wheel.name, "version": wheel.version} for wheel in synced_set.locked.wheels],
                "notes": synced_set.notes,
            }
            for synced_set in synced_sets
        }
        write_json({"lock": lock.name, "sets": sets})
        return Exit.FINISHED
    for synced_set in synced_sets:
        print(f"{synced_set.name}: {', '.join(f'{wheel.name} {wheel.version}' for wheel in synced_set.locked.wheels)}")
        for note in synced_set.notes:
            print(f"  note: {note}")
    print(f"locked in {lock.name}; restart running servers so that their programs can import it")
    return Exit.FINISHED


@libraries_app.command("list")
def _list(config: ConfigOption = None, json: JsonOption = False) -> int:
    """Show each set: the packages requested, the versions locked, and whether it is installed here."""
    from toolfold.config.library_sets import set_states
    from toolfold.libraries import LibraryStore

    store = LibraryStore()
    # Any: each key has its own type.
    sets: dict[str, dict[str, Any]] = {}
    for name, state in set_states(_config(config), store).items():
        installed_set = state.locked if state.is_installed else None
        wheels = () if state.locked is None else state.locked.wheels
        by_wheel = {} if installed_set is None else store.modules(installed_set)
        sets[name] = {
            "packages": list(state.requirement.packages),
            "state": state.text,
            "preload": list(state.requirement.preload),
            "bytes": 0 if installed_set is None else store.bytes_of(installed_set),
            "wheels": [
                {"name": wheel.name, "version": wheel.version, "modules": list(by_wheel.get(wheel, ()))}
                for wheel in wheels
            ],
        }
    if json:
        write_json(sets)
        return Exit.FINISHED
    for name, entry in sets.items():
        size = f"{entry['bytes'] / 1024**2:.1f} MiB"
        print(f"{name}: {entry['state']}, {size}, requested: {', '.join(entry['packages'])}")
        for wheel in entry["wheels"]:
            print(f"  {wheel['name']} {wheel['version']}: {', '.join(wheel['modules']) or '-'}")
    if not sets:
        print(_NONE)
    return Exit.FINISHED


@libraries_app.command("check")
def _check(config: ConfigOption = None, json: JsonOption = False) -> int:
    """Verify every installed file and import every package in the sandbox; exit 1 if one fails."""
    from toolfold.config.library_sets import library_sets, set_states
    from toolfold.libraries import LibraryStore

    loaded_config, store = _config(config), LibraryStore()
    states, imports = dict[str, str](), dict[str, str]()
    for name, state in set_states(loaded_config, store).items():
        states[name] = state.text
        if state.locked is not None and state.is_installed and not store.is_sound(state.locked):
            states[name] = "changed on disk since it was installed; remove its folder and run 'toolfold libraries sync'"
    for installed_set in library_sets(loaded_config):
        modules = installed_set.offers
        problems = run_async(_run(loaded_config, installed_set, [f"import {module}" for module in modules]))
        imports |= zip(modules, problems, strict=True)
    if json:
        write_json({"sets": states, "imports": {module: reason or None for module, reason in imports.items()}})
    else:
        lines = [f"{name}: {text}" for name, text in states.items()] or [_NONE]
        lines += [f"  import {module}: {reason or 'works'}" for module, reason in imports.items()]
        print("\n".join(lines))
    is_sound = not any(imports.values()) and all(text == "installed" for text in states.values())
    return Exit.FINISHED if is_sound else Exit.FAILED


def _config(path: Path | None) -> Config:
    config = nearest_config(path)
    if config is None:
        raise UsageError("no toolfold.yaml in this or a parent folder; 'toolfold init' writes one")
    return config


def _try_preload(config: Config, installed_set: InstalledSet) -> None:
    """What cannot be preloaded would stop every program of the set, so it is not taken."""
    if installed_set.preload:
        try:
            run_async(_run(config, installed_set, [f"import {installed_set.preload[0]}"]))
        except EngineUnavailable as error:
            # Elsewhere, for instance while an image is built, the jail itself may not be possible.
            if "libraries.preload" in str(error):
                raise UsageError(str(error).partition(": ")[2]) from error


async def _run(config: Config, installed_set: InstalledSet, texts: Sequence[str]) -> list[str]:
    from toolfold.runtime import Runtime

    # Any: each option has its own type.
    options: dict[str, Any] = {"library_sets": [installed_set], "isolation": config.isolation}
    if config.isolation == "none":
        options["accept_no_isolation"] = True  # whoever wrote the config did
    problems = []
    async with Runtime(engine="process", engine_options=options, limits=config.program_limits) as runtime:
        for text in texts:
            outcome = await runtime.run(text)
            problems.append("" if outcome.problem is None else outcome.problem.message.splitlines()[-1])
    return problems


# ----------------------------------------------------------------------------------------------------
# `toolfold ledger`: what is done to a ledger as a whole. What it holds is in `runs`.

ledger_app = typer.Typer(
    help="Maintain the ledger: change its encryption key, index it for the console's search.", rich_markup_mode=None
)


@ledger_app.command("rekey")
def _rekey(
    new_key_env: Annotated[
        str, typer.Option("--new-key-env", metavar="NAME", help="The environment variable that holds the new key.")
    ],
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> int:
    """Encrypt a ledger with another key; the old file is kept beside it.

    The old key is the config's `ledger.key`, or TOOLFOLD_LEDGER_KEY. First stop every process that uses the ledger.
    """
    new_key = os.environ.get(new_key_env)
    if not new_key:
        raise UsageError(f"no environment variable {new_key_env!r}; put the new key there")
    from toolfold.ledger.ledger_factory import rekey_ledger

    handle_interrupts()
    result = rekey_ledger(*_ledger_location(ledger, config), new_key)
    if json:
        write_json({"executions": result.executions, "copy": result.copy or None})
        return 0
    noun = "execution" if result.executions == 1 else "executions"
    detail = f"the old file is kept as {result.copy!r}" if result.copy else "the ledger already has the new key"
    typer.echo(f"rekeyed {result.executions} {noun}; {detail}")
    return 0


@ledger_app.command("reindex")
def _reindex(ledger: LedgerOption = None, config: ConfigOption = None, json: JsonOption = False) -> int:
    """Write the full-text index of a ledger anew, for the search of the console.

    A console does this by itself, in the background. Run it after deleting runs whose words must not stay in the index.
    """
    from toolfold.ledger.ledger_factory import reindex_ledger

    handle_interrupts()
    count = reindex_ledger(*_ledger_location(ledger, config), lambda _: None)
    if json:
        write_json({"executions": count})
    else:
        typer.echo(f"indexed {count} {'execution' if count == 1 else 'executions'}")
    return 0


def _ledger_location(where: str | None, path: Path | None) -> tuple[str | None, str | None]:
    config = nearest_config(path) if where is None else None
    if config is not None and config.ledger.model_fields_set:
        from toolfold.config.build import ledger_location

        return ledger_location(config)
    return where, os.environ.get(KEY_VARIABLE)
