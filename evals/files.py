"""A folder of text files, in memory."""

state = {
    "files": {
        **{f"logs/day{i}.log": "\n".join(
            f"{(h * 3 + i) % 24:02}:00 {'ERROR disk' if (h * i) % 7 == 3 else 'WARN slow' if (h + i) % 5 == 0 else 'INFO ok'}"
            for h in range(24)) for i in range(1, 9)},
        **{f"notes/{n}.txt": f"{n} costs {i * 13 % 70 + 5} euros\nowner: {('Pia', 'Quin', 'Rob')[i % 3]}\nstatus: {'done' if i % 4 == 0 else 'draft'}"
           for i, n in enumerate("alpha beta gamma delta epsilon zeta eta theta iota kappa".split())},
        "config/app.ini": "port=8080\ndebug=true\nworkers=4\n",
        "config/db.ini": "host=db1\nport=5432\npool=20\n",
        "todo.txt": "buy milk\ncall Rob\nfix printer\n",
    }
}  # fmt: skip


def list_files(folder: str = "") -> list[str]:
    """Paths of all files, or of those in a folder such as `logs`."""
    return [path for path in state["files"] if path.startswith(f"{folder.strip('/')}/" if folder.strip("/") else "")]


def read_file(path: str) -> str:
    """The text of a file."""
    if path not in state["files"]:
        raise ValueError(f"no file {path!r}")
    return state["files"][path]


def file_size(path: str) -> int:
    """Number of characters in a file."""
    return len(read_file(path))


def write_file(path: str, text: str) -> str:
    """Write a file, whether it exists or not."""
    state["files"][path] = text
    return "written"


def move_file(path: str, new_path: str) -> str:
    """Move or rename a file."""
    state["files"][new_path] = read_file(path)
    del state["files"][path]
    return "moved"


def delete_file(path: str) -> str:
    """Delete a file."""
    read_file(path)
    del state["files"][path]
    return "deleted"
