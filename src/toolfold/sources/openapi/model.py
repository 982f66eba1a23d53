"""What is kept of a document: its operations, ready to be called, and schemas that are looked into when needed."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

VERSION: Final = 1
"""Of the form below; files of another are made anew."""

Place: TypeAlias = Literal["path", "query", "header", "cookie", "body"]
Method: TypeAlias = Literal["get", "put", "post", "delete", "options", "head", "patch", "trace"]
METHODS: Final[tuple[Method, ...]] = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


class Argument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument of a tool, and where it goes in the request."""

    name: str
    """As programs call it."""
    wire: str
    """As the API calls it."""
    place: Place
    style: str = ""
    explode: bool = False
    allow_reserved: bool = False
    mime: str = ""
    """How it is encoded on its own: a parameter with `content`, a part of a multipart body."""


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the body of a request is made."""

    mime: str
    is_required: bool = False
    whole: str = ""
    """The one argument that is the whole body; empty where arguments are its fields."""
    is_open: bool = False
    """Arguments that nobody declared are fields of it, too."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation of an API."""

    name: str
    """Within its API."""
    method: Method
    path: str
    description: str = ""
    is_deprecated: bool = False
    is_paged: bool = False
    arguments: tuple[Argument, ...] = ()
    body: Body | None = None
    accept: str = ""
    """The media type that it answers with."""
    server: str = ""
    """Where it is, if not where the others are."""
    input_schema: bytes = b""
    """Packed, like the schemas below: most of them are never looked into."""
    output_schema: bytes = b""
    """As in the document, with its references; empty for none."""


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """A whole document."""

    version: int
    title: str
    server: str
    """The first of its servers; empty for none."""
    operations: tuple[Operation, ...]
    schemas: dict[str, bytes]
    """What references lead to, by reference."""
    warnings: tuple[str, ...] = ()
