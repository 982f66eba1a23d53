"""Names of operations as tools: readable, stable, and valid in Python. Pure."""

from __future__ import annotations

import keyword
import re
from typing import Final

_LONGEST: Final = 100
_WORD_ENDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHER: Final = re.compile(r"[^A-Za-z0-9]+")


def snake(text: str) -> str:
    """`repos/listForOrg` as `repos_list_for_org`; empty where no letter or digit is in it."""
    words = _OTHER.sub("_", _WORD_ENDS.sub("_", text)).strip("_").lower()
    return words[:_LONGEST].rstrip("_")


def operation_name(operation_id: object, method: str, path: str) -> str:
    """What an operation is called within its API: by its id, else by method and path."""
    own = snake(operation_id) if isinstance(operation_id, str) else ""
    return own or name_from_path(method, path)


def name_from_path(method: str, path: str) -> str:
    """`GET /users/{id}/posts` as `get_users_by_id_posts`."""
    parts = [f"by_{snake(part)}" if part.startswith("{") else snake(part) for part in path.split("/")]
    return "_".join([method, *(part for part in parts if part)])[:_LONGEST].rstrip("_")


def argument_name(name: str, taken: set[str], place: str) -> str:
    """A free name for an argument: its own, or with its place behind it, as in `id_query`."""
    chosen = name if name not in taken else f"{name}_{place}"
    while chosen in taken:
        chosen += "_"
    taken.add(chosen)
    return chosen


def domain_name(text: str) -> str:
    """The name of an API as a module: `api.github.com` as `api_github_com`."""
    name = snake(text) or "api"
    if name[0].isdigit():
        name = f"api_{name}"
    return f"{name}_api" if keyword.iskeyword(name) else name
