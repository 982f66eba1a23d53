"""Output of the command line: outcomes as text or JSON, and files that a program created."""

import errno
import os
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from toolfold.errors import UsageError
from toolfold.interfaces.cli.command_process import write
from toolfold.models import Call, CallRecord, File, Outcome, Value

_SHOWN_VALUE: Final = 2000
_SHOWN_FILES: Final = 3


def print_text(outcome: Outcome) -> None:
    """The program's stdout on stdout, everything else on stderr."""
    write(sys.stdout, outcome.stdout)
    write(sys.stderr, "".join(_notes(outcome)))


def call_line(record: CallRecord) -> str:
    """One tool call in one line, safe for a terminal."""
    ending = f"failed: {record.error!r}" if record.error is not None else f"{record.bytes_out} bytes"
    return f"  {record.id:>4}  {format_call(record)}  {record.seconds * 1000:.0f} ms  {ending}"


def unsaved_line(files: Sequence[File]) -> str:
    """Line that names unsaved files of a program, and the option that saves them."""
    names = [printable_name(file.name) for file in files]
    listing = ", ".join(names[:_SHOWN_FILES])
    more = f" and {len(names) - _SHOWN_FILES} more" if len(names) > _SHOWN_FILES else ""
    if len(names) == 1:
        return f"{listing} was not saved; --out DIR saves it"
    return f"{listing}{more} were not saved; --out DIR saves them"


def format_call(call: Call | CallRecord, most_characters: int = 60) -> str:
    """The call with so much of its arguments."""
    name = call.name if isinstance(call, CallRecord) else call.tool
    return f"{printable_name(name)}({shorten(format_arguments(call.arguments), most_characters)})"


def format_arguments(arguments: Mapping[str, Value]) -> str:
    """As in a call. `repr` leaves no control character in a value; names are as free as values."""
    return ", ".join(f"{printable_name(name)}={value!r}" for name, value in arguments.items())


def printable_name(name: str) -> str:
    """A name in one line: what would move the cursor or turn the text around is written out."""
    return name if name.isprintable() else repr(name)[1:-1]


def _notes(outcome: Outcome) -> list[str]:
    notes = [f"toolfold: {outcome.unmade_line}\n"] if outcome.unmade_calls else []
    if outcome.stderr:
        notes.append(outcome.stderr if outcome.stderr.endswith("\n") else outcome.stderr + "\n")
    for stream, cut in (("stdout", outcome.stdout_cut_bytes), ("stderr", outcome.stderr_cut_bytes)):
        if cut:
            notes.append(f"toolfold: {cut} bytes of {stream} were cut\n")
    # An exception's traceback is already in the program's stderr.
    if outcome.problem is not None and outcome.problem.kind != "exception":
        notes.append(f"{str(outcome.problem).rstrip()}\n")
    # Whoever reads why a program failed, at a terminal or in a log, needs the next step as well.
    is_read = outcome.problem is not None or sys.stderr.isatty()
    notes += [f"toolfold: hint: {hint}\n" for hint in (outcome.hints if is_read else outcome.line_hints)]
    if outcome.value is not None and sys.stderr.isatty():
        notes.append(f"toolfold: value: {shorten(repr(outcome.value), _SHOWN_VALUE)}\n")
    return notes


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


# ----------------------------------------------------------------------------------------------------
# Files that a program made, written to the user's folder. Their names come from the guest and are hostile.


def prepare_folder(folder: Path) -> None:
    """Make the folder before anything runs, so that a wrong path costs no program."""
    from toolfold.sources.file_tools import close_folder, open_root

    try:
        folder.mkdir(parents=True, exist_ok=True)
        close_folder(open_root(folder))
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"--out {str(folder)!r} is not a folder; name another") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"--out {str(folder)!r} cannot be created: {_reason(error)}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--out {str(folder)!r} cannot be written to: permission denied")


def save_files(files: Sequence[File], folder: Path) -> list[str]:
    """Write each file beneath `folder`; returns one line for each that was left out."""
    from toolfold.sources.file_tools import close_folder, open_root

    complaints = []
    written: dict[str, str] = {}
    root = open_root(folder)
    try:
        for file in files:
            twin = written.get(file.name.casefold())
            try:
                if twin is not None and _is_same(folder / twin, folder / file.name):
                    raise ValueError(f"in this folder, {twin!r} is the same name")
                _save(file, root)
            except (OSError, ValueError) as error:
                complaints.append(f"file {file.name!r} was not written: {_reason(error)}")
            else:
                written[file.name.casefold()] = file.name
    finally:
        close_folder(root)
    return complaints


def _is_same(one: Path, other: Path) -> bool:
    """Whether names that differ in case alone are one, as on most disks of macOS and Windows."""
    return other.exists() and one.samefile(other)


def _save(file: File, root: int | str) -> None:
    from toolfold.sources.file_tools import close_folder, open_folder, replace_file

    *folders, name = _parts(file.name)
    with ExitStack() as stack:
        parent = root
        for folder in folders:
            parent = open_folder(folder, parent, make=True)
            stack.callback(close_folder, parent)
        replace_file(name, file.data, parent)


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError("its name points outside the folder")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        raise ValueError("its name contains a control character")
    return parts


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a link or a file has the name of its folder"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
