"""Command line: reads files and options, runs a program, prints its outcome."""

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """The command `toolfold`; leaves the process."""
    from toolfold.interfaces.cli.command_process import leave, prepare_streams, run_guarded

    # Before anything is opened, which could take the number of a closed stream.
    prepare_streams()
    if sys.argv[1:2] == ["run"]:
        from toolfold.interfaces.cli.fast_start import launch_early, plain_options

        options = plain_options(sys.argv[2:])
        if options is not None:
            launch_early(options)
            from toolfold.interfaces.cli.commands.run import run_program

            leave(run_guarded(lambda: run_program(options)))
    from toolfold.interfaces.cli.app import run_command

    leave(run_command(sys.argv[1:]))
