"""Files of a workspace as tools: nothing outside of it can be reached by a path."""

from __future__ import annotations

from pathlib import Path

from toolfold.doors.gem.local import LocalTools
from toolfold.errors import ToolError


def create_filesystem_tool(workspace_path: str | Path = ".") -> LocalTools:
    """`list_files`, `read_file`, `write_file`, `delete_file`, `make_folder` under one folder."""
    root = Path(workspace_path).resolve()

    def beneath(path: str) -> Path:
        found = (root / path).resolve()  # follows links, so that one which leads out is seen
        if not found.is_relative_to(root):
            raise ToolError(f"path {path!r} leads out of the workspace")
        return found

    def existing(path: str) -> Path:
        found = beneath(path)
        if not found.exists():
            raise ToolError(f"no file or folder {path!r}")
        return found

    def list_files(path: str = ".") -> list[str]:
        """Names of the files and folders in a folder; folders end in a slash."""
        folder = existing(path)
        if not folder.is_dir():
            raise ToolError(f"{path!r} is a file")
        # What begins with a dot is not shown: saved programs are in such a folder.
        shown = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
        return sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in shown)

    def read_file(path: str) -> str:
        """The text of a file."""
        found = existing(path)
        if found.is_dir():
            raise ToolError(f"{path!r} is a folder")
        return found.read_text(encoding="utf-8")

    def write_file(path: str, content: str) -> str:
        """Write a text file; folders on the way are made."""
        found = beneath(path)
        if found.is_dir():
            raise ToolError(f"{path!r} is a folder")
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_text(content, encoding="utf-8")
        return f"wrote {len(content)} characters to {path}"

    def delete_file(path: str) -> str:
        """Delete one file."""
        found = existing(path)
        if found.is_dir():
            raise ToolError(f"{path!r} is a folder")
        found.unlink()
        return f"deleted {path}"

    def make_folder(path: str) -> str:
        """Make a folder, and those it is in."""
        beneath(path).mkdir(parents=True, exist_ok=True)
        return f"made {path}"

    return LocalTools("filesystem", [list_files, read_file, write_file, delete_file, make_folder])
