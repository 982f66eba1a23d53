"""The command line: reads files and options, runs a program, prints its outcome."""

from toolfold.doors.cli.app import main

__all__ = ["main"]
