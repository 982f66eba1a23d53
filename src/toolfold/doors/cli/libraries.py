"""`toolfold libraries`: install the packages that the config lists for programs, show them, try them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolfold.doors.cli.configured import nearest_config
from toolfold.doors.cli.exits import Exit
from toolfold.errors import EngineUnavailable, UsageError

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.models import InstalledSet

libraries_app = typer.Typer(
    help="Packages that programs can import, from libraries in the config.", no_args_is_help=True
)

ConfigOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The config; the nearest toolfold.yaml from here upwards unless given."),
]


@libraries_app.command("sync")
def _sync(
    config: ConfigOption = None,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Take the newest versions, whatever is locked.")] = False,
) -> int:
    """Install what libraries.packages lists, as wheels, and lock it beside the config.

    Where the packages come from is a matter of pip's settings. If anything fails, what was installed stays in use.
    """
    # Imported here: the other commands start without it.
    from toolfold.config.libraries import lock_of, wanted_sets  # noqa: PLC0415
    from toolfold.libraries import sync  # noqa: PLC0415

    found = _config(config)
    wanted = wanted_sets(found)
    if not wanted:
        raise UsageError("the config lists no packages; add them as libraries: {packages: [networkx]}")
    lock = lock_of(found)
    for one in sync(wanted, lock, upgrade=upgrade, try_out=lambda made: _try_preload(found, made)):
        print(f"{one.name}: {', '.join(f'{wheel.name} {wheel.version}' for wheel in one.locked.wheels)}")
        for note in one.notes:
            print(f"  note: {note}")
    print(f"locked in {lock.name}; programs of servers that run already see it after a restart")
    return Exit.FINISHED


@libraries_app.command("list")
def _list(
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the sets as one JSON object.")] = False,
) -> int:
    """Show each set: what was asked for, what is locked, and whether it is installed here."""
    # Imported here for the same reason.
    from toolfold.config.libraries import lock_of, wanted_sets  # noqa: PLC0415
    from toolfold.libraries import Installed, read_lock  # noqa: PLC0415

    found = _config(config)
    locked, store = read_lock(lock_of(found)), Installed()
    # Any: each key has its own type.
    sets: dict[str, dict[str, Any]] = {}
    for one in wanted_sets(found):
        known = locked.get(one.name)
        is_there = known is not None and store.has(known)
        wheels = () if known is None else known.wheels
        by_wheel = store.modules(known) if known is not None and is_there else {}
        sets[one.name] = {
            "packages": list(one.packages),
            "state": _state(
                is_locked=known is not None,
                is_there=is_there,
                is_current=known is not None and known.packages == one.packages,
            ),
            "preload": list(one.preload),
            "bytes": store.bytes_of(known) if known is not None and is_there else 0,
            "wheels": [
                {"name": wheel.name, "version": wheel.version, "modules": list(by_wheel.get(wheel, ()))}
                for wheel in wheels
            ],
        }
    if as_json:
        print(json.dumps(sets, indent=2))
        return Exit.FINISHED
    for name, said in sets.items():
        print(f"{name}: {said['state']}, {said['bytes'] / 1024**2:.1f} MiB, asked for {', '.join(said['packages'])}")
        for wheel in said["wheels"]:
            print(f"  {wheel['name']} {wheel['version']}: {', '.join(wheel['modules']) or '-'}")
    if not sets:
        print("the config lists no packages")
    return Exit.FINISHED


@libraries_app.command("check")
def _check(config: ConfigOption = None) -> int:
    """Compare every file with what was installed, and import every package in the jail; exit 1 if one fails."""
    # Imported here for the same reason.
    from toolfold.config.libraries import library_sets, lock_of, wanted_sets  # noqa: PLC0415
    from toolfold.libraries import Installed, read_lock  # noqa: PLC0415

    found = _config(config)
    locked, store, faults = read_lock(lock_of(found)), Installed(), 0
    for one in wanted_sets(found):
        known = locked.get(one.name)
        is_there = known is not None and store.has(known)
        is_current = known is not None and known.packages == one.packages
        state = _state(is_locked=known is not None, is_there=is_there, is_current=is_current)
        if known is not None and is_there and not store.is_sound(known):
            state = "changed on disk since it was installed; remove its folder and run 'toolfold libraries sync'"
        faults += state != "installed"
        print(f"{one.name}: {state}")
    for made in library_sets(found):
        for module, reason in asyncio.run(_import_all(found, made)).items():
            faults += bool(reason)
            print(f"  import {module}: {reason or 'works'}")
    return Exit.FAILED if faults else Exit.FINISHED


def _state(*, is_locked: bool, is_there: bool, is_current: bool) -> str:
    if not is_locked:
        return "not locked; run 'toolfold libraries sync'"
    if not is_there:
        return "locked but not installed here; run 'toolfold libraries sync'"
    return "installed" if is_current else "older than its packages in the config; run 'toolfold libraries sync'"


def _config(path: Path | None) -> Config:
    found = nearest_config(path)
    if found is None:
        raise UsageError("no toolfold.yaml from here upwards; 'toolfold init' writes one")
    return found


def _try_preload(config: Config, made: InstalledSet) -> None:
    """What cannot be preloaded would stop every program of the set, so it is not taken."""
    if made.preload:
        try:
            asyncio.run(_run(config, made, [f"import {made.preload[0]}"]))
        except EngineUnavailable as error:
            # Elsewhere, for instance while an image is built, the jail itself may not be possible.
            if "libraries.preload" in str(error):
                raise UsageError(str(error).partition(": ")[2]) from error


async def _import_all(config: Config, made: InstalledSet) -> dict[str, str]:
    """Why each module of the packages that were asked for cannot be imported; empty if it can."""
    problems = await _run(config, made, [f"import {module}" for module in made.offers])
    return dict(zip(made.offers, problems, strict=True))


async def _run(config: Config, made: InstalledSet, texts: Sequence[str]) -> list[str]:
    from toolfold.runtime import Runtime  # noqa: PLC0415 - start-up time

    # Any: each option has its own type.
    options: dict[str, Any] = {"library_sets": [made], "isolation": config.isolation}
    if config.isolation == "none":
        options["accept_no_isolation"] = True  # whoever wrote the config did
    problems = []
    async with Runtime(engine="process", engine_options=options, limits=config.program_limits) as runtime:
        for text in texts:
            outcome = await runtime.run(text)
            problems.append("" if outcome.problem is None else outcome.problem.message.splitlines()[-1])
    return problems
