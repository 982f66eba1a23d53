"""Command line: reads files and options, runs a program, prints its outcome."""

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """The command `toolfold`; leaves the process."""
    if sys.argv[1:2] == ["run"]:
        from toolfold.interfaces.cli.fast_start import launch_early, plain_options

        options = plain_options(sys.argv[2:])
        if options is not None:
            launch_early(options)
            from toolfold.interfaces.cli.command_process import leave, run_guarded
            from toolfold.interfaces.cli.commands.run import run_program

            leave(run_guarded(lambda: run_program(options)))
    from toolfold.interfaces.cli.app import run_command
    from toolfold.interfaces.cli.command_process import leave

    leave(run_command(sys.argv[1:]))
