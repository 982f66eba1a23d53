"""Folder removal for trees that a program wrote, however deep, unreadable or crowded they are."""

import os
import stat


def remove_tree(top: str) -> None:
    """Remove `top` and all below it; what cannot be removed stays. No process may still write there."""
    # Folders move up beside `top` before they are emptied: no path gets long and nothing recurses.
    waiting = [top]
    moved = 0
    while waiting:
        folder = waiting.pop()
        try:
            os.chmod(folder, 0o700)
            with os.scandir(folder) as entries:
                paths = [entry.path for entry in entries]
            for path in paths:
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    moved += 1
                    os.chmod(path, 0o700)
                    os.rename(path, f"{top}.{moved}")
                    waiting.append(f"{top}.{moved}")
                else:
                    os.unlink(path)
            os.rmdir(folder)
        except OSError:
            continue  # gone already, or not ours
