"""Command line: reads files and options, runs a program, prints its outcome."""

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """The command `toolfold`; leaves the process."""
    # Imported where they are needed: a small program is over before the options of all commands are loaded.
    if sys.argv[1:2] == ["run"]:
        from toolfold.interfaces.cli.fast_start import launch_early, plain_options  # noqa: PLC0415

        options = plain_options(sys.argv[2:])
        if options is not None:
            launch_early(options)
            from toolfold.interfaces.cli.commands.run import run_program  # noqa: PLC0415
            from toolfold.interfaces.cli.process import leave, run_guarded  # noqa: PLC0415

            leave(run_guarded(lambda: run_program(options)))
    from toolfold.interfaces.cli.app import main as read_and_run  # noqa: PLC0415

    read_and_run()
