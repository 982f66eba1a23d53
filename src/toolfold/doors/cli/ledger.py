"""`toolfold ledger`: what is done to a ledger as a whole. What it holds is in `runs`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from toolfold.doors.cli.configured import nearest_config
from toolfold.doors.cli.ledgers import KEY_VARIABLE
from toolfold.doors.cli.option_types import ConfigOption
from toolfold.errors import UsageError

ledger_app = typer.Typer(help="Maintain the ledger: change its encryption key.", rich_markup_mode=None)


@ledger_app.callback()
def _group() -> None:
    """Keeps `rekey` a command of its own while it is the only one."""


@ledger_app.command("rekey")
def _rekey(
    new_key_env: Annotated[
        str, typer.Option("--new-key-env", metavar="NAME", help="The environment variable that holds the new key.")
    ],
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger", metavar="PATH", help="The ledger. Default: the config's, or the one in your state folder."
        ),
    ] = None,
    config: ConfigOption = None,
) -> int:
    """Encrypt a ledger with another key; the old file is kept beside it.

    The old key is the config's `ledger.key`, or TOOLFOLD_LEDGER_KEY. First stop every process that uses the ledger.
    """
    new_key = os.environ.get(new_key_env)
    if not new_key:
        raise UsageError(f"no environment variable {new_key_env!r}; put the new key there")
    # Imported here: `--help` starts without SQLite.
    from toolfold.ledger.open import rekey_ledger  # noqa: PLC0415

    done = rekey_ledger(*_place(ledger, config), new_key)
    noun = "execution" if done.executions == 1 else "executions"
    what = f"the old file is kept as {done.copy!r}" if done.copy else "the ledger has the new key already"
    typer.echo(f"rekeyed {done.executions} {noun}; {what}")
    return 0


def _place(where: str | None, path: Path | None) -> tuple[str | None, str | None]:
    config = nearest_config(path) if where is None else None
    if config is not None and config.ledger.model_fields_set:
        from toolfold.config.build import ledger_place  # noqa: PLC0415 - the same

        return ledger_place(config)
    return where, os.environ.get(KEY_VARIABLE)
