"""Which ledger a command uses: the one on its command line, the config's, or the usual one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from toolfold.ledger.base import Ledger

if TYPE_CHECKING:
    from toolfold.config import Config

KEY_VARIABLE: Final = "TOOLFOLD_LEDGER_KEY"


def open_for_command(where: str | None, config: Config | None = None) -> Ledger:
    """The ledger that the command line names, else the config's; the key of a sealed one is in the environment."""
    # Imported here: `--help` starts without SQLite.
    from toolfold.ledger.open import open_ledger  # noqa: PLC0415

    if where is None and config is not None and config.ledger.model_fields_set:
        from toolfold.config.build import ledger_of  # noqa: PLC0415 - the same

        return ledger_of(config)
    return open_ledger(where, key=os.environ.get(KEY_VARIABLE))
