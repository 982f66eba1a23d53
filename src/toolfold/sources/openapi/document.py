"""The text of an OpenAPI document as plain data, within limits: its author may be a stranger."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

# PyYAML ships no types, and its stubs are no dependency of ours.
import yaml  # type: ignore[import-untyped]

from toolfold.errors import UsageError
from toolfold.models import MIB, Json

MAX_BYTES: Final = 64 * MIB
MAX_YAML_BYTES: Final = 16 * MIB
MAX_VALUES: Final = 5_000_000
"""Once aliases are followed; more is an attack or a mistake."""
MAX_MERGED: Final = 1_000_000
"""Keys of mappings in YAML, those that are merged into others counted again."""
MAX_DEPTH: Final = 200


def read_document(data: bytes) -> dict[str, Json]:
    """A document of OpenAPI 3.0 or 3.1, in JSON or YAML.

    Raises:
        UsageError: it is none; the text says why, for whoever named it to put its name before.
    """
    if len(data) > MAX_BYTES:
        raise UsageError(f"is larger than {MAX_BYTES:,} bytes")
    document = _parsed(data)
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


def _parsed(data: bytes) -> Json:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        if data.lstrip()[:1] in (b"{", b"["):
            return msgspec.json.decode(data)
    except RecursionError:
        raise UsageError("is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"is not JSON: {str(error).partition(chr(10))[0]}") from None
    return _from_yaml(data)


def _from_yaml(data: bytes) -> Json:
    if len(data) > MAX_YAML_BYTES:
        raise UsageError(f"is YAML of more than {MAX_YAML_BYTES:,} bytes; convert it to JSON")
    try:
        _check_depth(data)
        # A safe loader, with fewer types still.
        value = yaml.load(data, Loader=_Loader)  # noqa: S506
        _check_size(value)
        return _with_text_keys(value, {})
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"is not YAML{line}: {' '.join(str(error.problem or error.context).split())}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError("is not YAML: it holds characters that YAML does not allow") from None
    except RecursionError:
        raise UsageError("is nested too deeply") from None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
    """YAML 1.2's types: `on` and `no` are words, and a date is text."""

    yaml_implicit_resolvers: Final[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}
    merged = 0
    """Pairs that came by `<<`, of all mappings."""

    # Any: a node, of which there are no types.
    def flatten_mapping(self, node: Any) -> None:
        """Copies pairs from one mapping to another, so a few lines may double them again and again."""
        super().flatten_mapping(node)
        self.merged += len(node.value)
        if self.merged > MAX_MERGED:
            raise UsageError(f"has more than {MAX_MERGED:,} keys once its merges are followed")


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("merge", r"<<", "<"),
):  # fmt: skip
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), [*_first, ""])


def _check_depth(data: bytes) -> None:
    """Before anything is built of it: the parser's own recursion has no limit, and would end the process."""
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
    """Counts each value as often as it is used, so that a few lines of aliases are seen for what they are."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        value, is_done = stack.pop()
        if not isinstance(value, dict | list) or id(value) in sizes:
            continue
        inner = list(value.values()) if isinstance(value, dict) else value
        if is_done:
            open_.discard(id(value))
            sizes[id(value)] = 1 + sum(sizes.get(id(one), 1) for one in inner)
            if sizes[id(value)] > MAX_VALUES:
                raise UsageError(f"has more than {MAX_VALUES:,} values once its aliases are followed")
            continue
        if id(value) in open_:
            raise UsageError("has an alias that contains itself")
        open_.add(id(value))
        stack.append((value, True))
        stack.extend((one, False) for one in inner if isinstance(one, dict | list))


# Any: the same.
def _with_text_keys(value: Any, seen: dict[int, Any], depth: int = 0) -> Any:
    """Statuses such as 200 are numbers in YAML. Shared parts stay shared."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if not isinstance(value, dict | list):
        return value
    if id(value) not in seen:
        if isinstance(value, dict):
            seen[id(value)] = {_key(key): _with_text_keys(one, seen, depth + 1) for key, one in value.items()}
        else:
            seen[id(value)] = [_with_text_keys(one, seen, depth + 1) for one in value]
    return seen[id(value)]


def _key(key: object) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    return "null" if key is None else str(key)
