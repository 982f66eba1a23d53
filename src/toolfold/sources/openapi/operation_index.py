"""Index of an OpenAPI document: its operations, ready to be called, packed schemas, and names as tools."""

from __future__ import annotations

import keyword
import re
from typing import Final, Literal, TypeAlias

import msgspec

VERSION: Final = 3
"""Version of the form below; files of another are made anew."""

Place: TypeAlias = Literal["path", "query", "header", "cookie", "body"]
Method: TypeAlias = Literal["get", "put", "post", "delete", "options", "head", "patch", "trace"]
METHODS: Final[tuple[Method, ...]] = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


class Argument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Argument of a tool, and where it goes in the request."""

    name: str
    """Name in programs."""
    wire: str
    """Name in the API."""
    place: Place
    style: str = ""
    explode: bool = False
    allow_reserved: bool = False
    mime: str = ""
    """Media type of its own: of a parameter with `content`, or a part of a multipart body."""
    is_file: bool = False
    """Whether it is sent with a file name, also where it is text."""


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Body of a request."""

    mime: str
    is_required: bool = False
    whole: str = ""
    """The argument that is the whole body; empty where arguments are its fields."""
    is_open: bool = False
    """Whether undeclared arguments are fields of it, too."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation of an API."""

    name: str
    method: Method
    path: str
    description: str = ""
    is_deprecated: bool = False
    is_paged: bool = False
    arguments: tuple[Argument, ...] = ()
    body: Body | None = None
    accept: str = ""
    server: str = ""
    input_schema: bytes = b""
    """Packed, like the schemas below: most of them are never used."""
    output_schema: bytes = b""
    """As in the document, with its references; empty for none."""


class ApiIndex(msgspec.Struct, frozen=True, kw_only=True):
    """Index of a whole document."""

    version: int
    title: str
    server: str
    """The first of its servers; empty for none."""
    operations: tuple[Operation, ...]
    schemas: dict[str, bytes]
    warnings: tuple[str, ...] = ()


# ----------------------------------------------------------------------------------------------------
# Names of operations as tools: readable, stable, and valid in Python. Pure.

_LONGEST: Final = 100
_WORD_ENDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHER: Final = re.compile(r"[^A-Za-z0-9]+")


def snake(text: str) -> str:
    """`repos/listForOrg` as `repos_list_for_org`; empty where no letter or digit is in it."""
    words = _OTHER.sub("_", _WORD_ENDS.sub("_", text)).strip("_").lower()
    return words[:_LONGEST].rstrip("_")


def operation_name(operation_id: object, method: str, path: str) -> str:
    """Name of an operation within its API: by its id, else by method and path."""
    name = snake(operation_id) if isinstance(operation_id, str) else ""
    return name or name_from_path(method, path)


def name_from_path(method: str, path: str) -> str:
    """`GET /users/{id}/posts` as `get_users_by_id_posts`."""
    parts = [f"by_{snake(part)}" if part.startswith("{") else snake(part) for part in path.split("/")]
    return "_".join([method, *(part for part in parts if part)])[:_LONGEST].rstrip("_")


def argument_name(name: str, used_names: set[str], place: str) -> str:
    """A free name for an argument: its own, or with its place behind it, as in `id_query`."""
    free_name = name if name not in used_names else f"{name}_{place}"
    while free_name in used_names:
        free_name += "_"
    used_names.add(free_name)
    return free_name


def domain_name(text: str) -> str:
    """The name of an API as a module: `api.github.com` as `api_github_com`."""
    name = snake(text) or "api"
    if name[0].isdigit():
        name = f"api_{name}"
    return f"{name}_api" if keyword.iskeyword(name) else name
