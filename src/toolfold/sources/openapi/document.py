"""OpenAPI documents: parsing within limits, references, the cache on disk, and fetching by URL."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import platformdirs

# PyYAML ships no types, and its stubs are no dependency of ours.
import yaml  # type: ignore[import-untyped]

from toolfold.errors import ToolError, ToolFailed, ToolRefused, UsageError
from toolfold.models import MIB, Json
from toolfold.prompts.schema_types import target_of
from toolfold.sources.openapi.operation_index import VERSION, ApiIndex
from toolfold.sources.private_files import FileRefused, drop_oldest_files, read_private_file, write_private_file
from toolfold.sources.web.client import WebClient
from toolfold.sources.web.credentials import WebReply, WebRequest
from toolfold.sources.web.guarded_network import host_entry, origin_of
from toolfold.sources.web.reply_values import check_status

if TYPE_CHECKING:
    from toolfold.sources.openapi.source import Api


MAX_BYTES: Final = 64 * MIB
MAX_YAML_BYTES: Final = 16 * MIB
MAX_VALUES: Final = 5_000_000
"""Limit once aliases are followed; more is an attack or a mistake."""
MAX_MERGED: Final = 1_000_000
"""Limit of keys in YAML, those that are merged into others counted again."""
MAX_DEPTH: Final = 200
_MOST_DIGITS: Final = 1_000


def read_document(data: bytes) -> dict[str, Json]:
    """Parse OpenAPI 3.0 or 3.1, in JSON or YAML; the text of a `UsageError` lacks the document's name."""
    if len(data) > MAX_BYTES:
        raise UsageError(f"is larger than {MAX_BYTES:,} bytes")
    document = _parse(data)
    if not isinstance(document, dict):
        raise UsageError("is not an OpenAPI document: it must be keys with values")
    version = document.get("openapi")
    if "swagger" in document and version is None:
        raise UsageError(f"is a Swagger {document['swagger']} document; convert it to OpenAPI 3.0 or 3.1")
    if not re.match(r"3\.[01](\.|$)", str(version)):
        raise UsageError(f"must have 'openapi: 3.0.x' or '3.1.x', got {version!r}")
    if not isinstance(document.get("paths"), dict):
        raise UsageError("has no 'paths', so there is nothing to call")
    return document


def _parse(data: bytes) -> Json:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        if data.lstrip()[:1] in (b"{", b"["):
            return msgspec.json.decode(data)
    except RecursionError:
        raise UsageError("is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _from_odd_json(data, f"is not JSON: {str(error).partition(chr(10))[0]}")
    return _from_yaml(data)


def _from_odd_json(data: bytes, complaint: str) -> Json:
    """JSON with numbers and characters that have no standard form (`1e999`, `NaN`, half a surrogate pair)."""
    try:
        value = json.loads(data, parse_int=_integer)
        return storable_value(value)
    except RecursionError:
        raise UsageError("is nested too deeply") from None
    except (ValueError, UnicodeDecodeError):
        raise UsageError(complaint) from None


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) < _MOST_DIGITS else None


def _from_yaml(data: bytes) -> Json:
    if len(data) > MAX_YAML_BYTES:
        raise UsageError(f"is YAML of more than {MAX_YAML_BYTES:,} bytes; convert it to JSON")
    try:
        _check_depth(data)
        # A safe loader, with fewer types still.
        value = yaml.load(data, Loader=_Loader)  # noqa: S506
        _check_size(value)
        return storable_value(value)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"is not YAML{line}: {' '.join(str(error.problem or error.context).split())}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError("is not YAML: it holds characters that YAML does not allow") from None
    except RecursionError:
        raise UsageError("is nested too deeply") from None
    except UsageError:
        raise
    # Constructors of explicit tags, such as `!!float x`, raise whatever the conversion raises.
    except Exception:  # noqa: BLE001
        raise UsageError("is not YAML: it has a tag that its value does not fit") from None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
    """Loader of YAML 1.2's types: `on` and `no` are words, and a date is text."""

    yaml_implicit_resolvers: Final[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}
    merged = 0

    # Any: a node, of which there are no types.
    def flatten_mapping(self, node: Any) -> None:
        """Copy the pairs of `<<`; a few lines of them may double the pairs again and again."""
        super().flatten_mapping(node)
        self.merged += len(node.value)
        if self.merged > MAX_MERGED:
            raise UsageError(f"has more than {MAX_MERGED:,} keys once its merges are followed")


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]{1,999}", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("merge", r"<<", "<"),
):  # fmt: skip
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), [*_first, ""])


def _check_depth(data: bytes) -> None:
    """Check the nesting before anything is built: the parser's own recursion has no limit, and would crash."""
    depth = 0
    for event in yaml.parse(data, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise RecursionError
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


# Any: whatever the YAML holds.
def _check_size(root: Any) -> None:
    """Count each value as often as it is used, for a few lines of aliases may stand for millions."""
    sizes: dict[int, int] = {}
    open_ids: set[int] = set()
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        value, is_done = stack.pop()
        if not isinstance(value, dict | list) or id(value) in sizes:
            continue
        children = list(value.values()) if isinstance(value, dict) else value
        if is_done:
            open_ids.discard(id(value))
            sizes[id(value)] = 1 + sum(sizes.get(id(child), 1) for child in children)
            if sizes[id(value)] > MAX_VALUES:
                raise UsageError(f"has more than {MAX_VALUES:,} values once its aliases are followed")
            continue
        if id(value) in open_ids:
            raise UsageError("has an alias that contains itself")
        open_ids.add(id(value))
        stack.append((value, True))
        stack.extend((child, False) for child in children if isinstance(child, dict | list))


def pack(value: Json) -> bytes:
    """A part of a document as it is stored; what has no such form is approximated or left out."""
    try:
        return msgspec.msgpack.encode(value)
    except (OverflowError, UnicodeEncodeError):
        return msgspec.msgpack.encode(storable_value(value))


# Any: the same.
def storable_value(value: Any) -> Any:
    """The value with text as keys, for statuses such as 200 are numbers in YAML, and without odd numbers and text."""
    return _storable(value, {}, 0)


# Any: the same.
def _storable(value: Any, copies: dict[int, Any], depth: int) -> Any:
    """Shared parts stay shared."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if not isinstance(value, dict | list):
        return _storable_scalar(value)
    if id(value) not in copies:
        if isinstance(value, dict):
            items = {_key(key): _storable(item, copies, depth + 1) for key, item in value.items()}
            copies[id(value)] = items
        else:
            copies[id(value)] = [_storable(item, copies, depth + 1) for item in value]
    return copies[id(value)]


def _storable_scalar(value: object) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if isinstance(value, int) and -(2**63) <= value < 2**64:
            return value
        with contextlib.suppress(OverflowError):
            return float(value) if math.isfinite(value) else None
        return None
    return str(value).encode("utf-8", "replace").decode()


def _key(key: object) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    return "null" if key is None else str(_storable_scalar(str(key)))


# ----------------------------------------------------------------------------------------------------
# References within a document; nothing is fetched for one.

_DEEPEST: Final = 20
_SCHEMAS: Final = "#/components/schemas/"
_ELSEWHERE: Final = re.compile(rb'"\$ref":"(#/(?!components/schemas/[^/"]+")[^"]+)"')
_REMOTE: Final = re.compile(rb'"\$ref":"([^#"][^"]*)"')


class References:
    """The references of one document."""

    def __init__(self, document: Mapping[str, Json]) -> None:
        self._document = document

    def resolve(self, value: Json) -> Json:
        """The value, or the target of its `$ref`; `None` for one that leads nowhere."""
        for _ in range(_DEEPEST):
            if not isinstance(value, Mapping) or not isinstance(value.get("$ref"), str):
                return value
            value = target_of(value["$ref"], self._document)
        return None

    def lookup(self, reference: str) -> Json | None:
        return target_of(reference, self._document)

    def pack_schemas(self) -> dict[str, bytes]:
        """Targets of the references of schemas, each packed on its own."""
        components = self.resolve(self._document.get("components")) or {}
        definitions = components.get("schemas") if isinstance(components, Mapping) else None
        schemas = definitions.items() if isinstance(definitions, Mapping) else ()
        targets = {f"{_SCHEMAS}{name}": schema for name, schema in schemas}
        for match in set(_ELSEWHERE.findall(msgspec.json.encode(self._document))):
            reference = match.decode()
            if "\\" not in reference and (target := self.lookup(reference)) is not None:
                targets[reference] = target
        packed: dict[str, bytes] = {}
        for reference, target in targets.items():
            with contextlib.suppress(RecursionError):  # too deep: then it allows anything
                packed[reference] = pack(target)
        return packed

    def remote_references(self) -> list[str]:
        matches = _REMOTE.findall(msgspec.json.encode(self._document))
        return sorted({match.decode(errors="replace") for match in matches})


class PackedSchemas:
    """Lookup of packed references; each is unpacked once, and sent to other processes packed."""

    def __init__(self, schemas: Mapping[str, bytes]) -> None:
        self._schemas = schemas
        self._unpacked: dict[str, Json] = {}

    def __call__(self, reference: str) -> Json | None:
        if reference not in self._schemas:
            return None
        if reference not in self._unpacked:
            self._unpacked[reference] = msgspec.msgpack.decode(self._schemas[reference])
        return self._unpacked[reference]

    def __reduce__(self) -> tuple[type[PackedSchemas], tuple[Mapping[str, bytes]]]:
        return PackedSchemas, (self._schemas,)


# ----------------------------------------------------------------------------------------------------
# Cache of documents on disk: their indexes, so that a large one is read once, and copies of fetched ones.
#
# A file that this version did not write, or that another user could have written, is ignored and made anew.

_MOST_FILES: Final = 50
_MOST_FILE_BYTES: Final = 4 * MAX_BYTES
"""An index may be larger than its document."""
_SMALL_BYTES: Final = 64 * 1024
"""A document of this size is read in less time than its index."""


class DocumentCopy(msgspec.Struct, frozen=True, kw_only=True):
    """Fetched document, with the validators of its server."""

    url: str
    content: bytes
    etag: str = ""
    modified: str = ""

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        headers = (("If-None-Match", self.etag), ("If-Modified-Since", self.modified))
        return tuple(pair for pair in headers if pair[1])


class DocumentStore:
    """Files of documents, in a folder for the user alone. Never fails: without the folder it forgets."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or platformdirs.user_cache_path("toolfold", appauthor=False) / "openapi"

    def get(self, document: bytes) -> ApiIndex | None:
        if len(document) <= _SMALL_BYTES:
            return None
        index = _decode_file(self._path(document, "index"), ApiIndex)
        return index if index is not None and index.version == VERSION else None

    def put(self, document: bytes, index: ApiIndex) -> None:
        if len(document) > _SMALL_BYTES:
            self._write(self._path(document, "index"), index)

    def copy_of(self, url: str) -> DocumentCopy | None:
        copy = _decode_file(self._path(url.encode(), "copy"), DocumentCopy)
        return copy if copy is not None and copy.url == url else None

    def put_copy(self, copy: DocumentCopy) -> None:
        self._write(self._path(copy.url.encode(), "copy"), copy)

    def _write(self, path: Path, value: ApiIndex | DocumentCopy) -> None:
        with contextlib.suppress(OSError):
            write_private_file(path, msgspec.msgpack.encode(value))
            drop_oldest_files(self._folder, f"*{path.suffix}", keep=_MOST_FILES)

    def _path(self, source: bytes, kind: str) -> Path:
        return self._folder / f"{hashlib.sha256(source).hexdigest()[:40]}.v{VERSION}.{kind}"


_Entry = TypeVar("_Entry", ApiIndex, DocumentCopy)


def _decode_file(path: Path, kind: type[_Entry]) -> _Entry | None:
    try:
        return msgspec.msgpack.decode(read_private_file(path, max_bytes=_MOST_FILE_BYTES), type=kind)
    except (OSError, FileRefused, msgspec.MsgspecError, UnicodeDecodeError):
        return None


# ----------------------------------------------------------------------------------------------------
# Bytes of a document, from a file or from its URL.

_log: Final = logging.getLogger(__name__)
_SECONDS: Final = 60.0
_NOT_MODIFIED: Final = 304


def is_url(spec: str | os.PathLike[str]) -> bool:
    return os.fspath(spec).startswith(("http://", "https://"))


def document_bytes(api: Api, store: DocumentStore) -> bytes:
    """Read a document, from a URL only if it has changed there; `UsageError` says why it cannot be read."""
    if is_url(api.spec):
        # In a thread: the caller may be in an event loop, and needs the tools before it continues.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, _fetch_document(api, store)).result()
    try:
        with open(api.spec, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the document cannot be read: {(error.strerror or str(error)).lower()}") from None


async def _fetch_document(api: Api, store: DocumentStore) -> bytes:
    url = os.fspath(api.spec)
    copy = store.copy_of(url)
    try:
        reply = await _request_document(api, url, copy)
    except (ToolError, TimeoutError) as error:
        # What a server refuses is refused; one that is not there today had it the last time.
        if copy is None or isinstance(error, ToolFailed | ToolRefused):
            raise UsageError(f"the document cannot be fetched: {str(error) or 'no answer in time'}") from None
        _log.warning("the document %s cannot be fetched, so the last copy is used: %s", url.partition("?")[0], error)
        return copy.content
    except ValueError as error:
        raise UsageError(f"the document cannot be fetched: its URL {error}") from None
    if reply.status == _NOT_MODIFIED and copy is not None:
        return copy.content
    fresh = DocumentCopy(
        url=url, content=reply.content, etag=reply.header("etag"), modified=reply.header("last-modified")
    )
    if fresh != copy:
        store.put_copy(fresh)
    return reply.content


async def _request_document(api: Api, url: str, copy: DocumentCopy | None) -> WebReply:
    origin_of(url)
    client = WebClient([host_entry(url), *api.hosts], max_bytes=MAX_BYTES)
    conditions = () if copy is None else copy.conditions
    try:
        async with asyncio.timeout(_SECONDS):
            reply = await client.send(WebRequest(method="GET", url=url, headers=(("Accept", "*/*"), *conditions)))
        if reply.status != _NOT_MODIFIED or not conditions:
            check_status(reply, client.masker)
        return reply
    finally:
        await client.close()
