"""Files that a program made, written to the user's folder. Their names come from the guest and are hostile."""

import errno
import os
import secrets
import unicodedata
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from toolfold.errors import UsageError
from toolfold.models import File


def prepare_folder(folder: Path) -> None:
    """Make the folder before anything runs, so that a wrong path costs no program."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"--out {str(folder)!r} is not a folder; name another") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"--out {str(folder)!r} cannot be made: {_reason(error)}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--out {str(folder)!r} cannot be written to: permission denied")


def save_files(files: Sequence[File], folder: Path) -> list[str]:
    """Write each file beneath `folder`; returns one line for each that was left out."""
    complaints = []
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for file in files:
            try:
                _save(file, root)
            except (OSError, ValueError) as error:
                complaints.append(f"file {file.name!r} was not written: {_reason(error)}")
    finally:
        os.close(root)
    return complaints


def _save(file: File, root: int) -> None:
    *folders, name = _parts(file.name)
    with ExitStack() as opened:
        parent = root
        for folder in folders:
            parent = _open_folder(folder, parent)
            opened.callback(os.close, parent)
        _replace(name, file.data, parent)


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError("its name leads out of the folder")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        raise ValueError("its name holds a control character")
    return parts


def _open_folder(name: str, parent: int) -> int:
    """A folder beneath `parent`, made if missing; never through a link."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)


def _replace(name: str, data: bytes, parent: int) -> None:
    # A rename replaces a link that stands there instead of writing through it, and never leaves half a file.
    temporary = f".toolfold-{secrets.token_hex(8)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=parent)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        os.unlink(temporary, dir_fd=parent)
        raise


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a link or a file stands where its folder should be"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
