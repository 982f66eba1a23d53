"""The file to a `Config`, or every mistake in it: one line each, with file, line and key."""

from __future__ import annotations

import difflib
import logging
import os
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from toolfold.config import text as yaml_text
from toolfold.config.env_file import read_env_file
from toolfold.config.find import FILE_NAME, shown_path
from toolfold.config.model import Config, ServerConfig
from toolfold.config.text import Document, Mistake, read_document
from toolfold.errors import UsageError

_log: Final = logging.getLogger(__name__)
MAX_BYTES: Final = 1024 * 1024
_SHOWN_MISTAKES: Final = 20
_SHOWN_CHARACTERS: Final = 60
_OTHER_WORDS: Final = {
    "cmd": "command", "exec": "command", "arguments": "args", "params": "args", "environment": "env",
    "timeout": "timeout_seconds", "type": "transport", "address": "url", "uri": "url",
}  # fmt: skip
"""What people write for a key that is spelt quite otherwise."""
_SECRET: Final = frozenset({"env", "headers", "key", "secret"})
"""Keys whose values never go into an error."""
_TYPES: Final = {
    "string_type": "text", "tuple_type": "a list", "mapping_type": "keys with values", "dict_type": "keys with values",
    "model_type": "keys with values", "bool_type": "true or false", "bool_parsing": "true or false",
    "string_too_short": "text that is not empty", "too_short": "a list that is not empty",
}  # fmt: skip


def load_config(path: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None) -> Config:
    """Read and check one file; `environment` is this process' own unless given.

    A server that needs a variable which is not set, or a file of variables which cannot be read, is left out, with
    one line in the log.

    Raises:
        UsageError: with one line for each mistake, as in `toolfold.yaml:12: execution.timeout_secnds: unknown key`.
    """
    path = Path(path)
    name = shown_path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"no config file {name!r}; check the path") from None
    except IsADirectoryError:
        raise UsageError(f"config file {name!r} is a folder; name a file in it") from None
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"config file {name!r} cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"config file {name!r} is larger than {MAX_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}:{line}: not UTF-8; save the file as UTF-8") from None
    config = parse_config(text, name=name, environment=environment)
    config._path = path.absolute()
    return _with_env_files(config, name)


def parse_config(text: str, *, name: str = FILE_NAME, environment: Mapping[str, str] | None = None) -> Config:
    """Check a text; `name` is the file's name in errors."""
    document = read_document(text, environment)
    config = None if document.mistakes else _checked(document)
    if config is not None:
        config._variables = document.variables
        config._uses = frozenset((name, _server_at(document.value, at)) for name, at in document.uses)
        config._place = lambda path: f"{name}:{document.line_of(path)}: {_dotted(path)}"
        left_out = {}
        for at, variables in sorted(document.unset.items()):
            server, why = _server_name(document.value, at), unset_text(variables)
            left_out[server] = why.partition(";")[0]
            shown = repr(server) if server else f"servers[{at}]"
            _log.warning("%s:%s: server %s is left out: %s", name, document.line_of(("servers", at)), shown, why)
        return with_left_out(config, left_out)
    mistakes = sorted(document.mistakes, key=lambda one: one.line or 0)
    lines = [_line(name, mistake) for mistake in mistakes[:_SHOWN_MISTAKES]]
    if len(mistakes) > _SHOWN_MISTAKES:
        lines.append(f"{name}: {len(mistakes) - _SHOWN_MISTAKES} more mistakes")
    error = UsageError("\n".join(lines))
    error.mistakes = tuple(lines)
    raise error


def unset_text(variables: Iterable[str]) -> str:
    """What to say of variables that a server needs."""
    *more, last = dict.fromkeys(repr(name) for name in variables)
    if not more:
        return f"variable {last} is not set; set it"
    return f"variables {', '.join(more)} and {last} are not set; set them"


def left_out_servers(config: Config) -> Mapping[str, str]:
    """Servers of the config that are not there, by name, and why, in words for a model."""
    return config._left_out


def with_left_out(config: Config, left_out: Mapping[str, str]) -> Config:
    """The config with these also on its list of servers that are not there."""
    config._left_out = {**config._left_out, **left_out}
    return config


def with_env_file(server: ServerConfig, folder: Path) -> ServerConfig:
    """The server with the variables of its file; its own count more.

    Raises:
        UsageError: the file cannot be read.
    """
    if server.env_file is None:
        return server
    try:
        found = read_env_file(folder / server.env_file)
    except UsageError as error:
        raise UsageError(f"env_file {server.env_file!r} {error}") from None
    return server.model_copy(update={"env": {**found, **server.env}})


def _with_env_files(config: Config, name: str) -> Config:
    servers, left_out = [], {}
    for server in config.servers:
        try:
            servers.append(with_env_file(server, config.folder))
        except UsageError as error:
            left_out[server.name] = "its env_file cannot be read"
            _log.warning("%s: server %r is left out: %s", name, server.name, error)
    return with_left_out(config.model_copy(update={"servers": tuple(servers)}), left_out)


# Any: the file's values.
def _server_at(value: Any, at: str | int | None) -> str:
    return str(value["servers"][at]["name"]) if isinstance(at, int) else ""


# Any: the file's values.
def _server_name(value: Any, at: int) -> str:
    entry = value["servers"][at]
    return str(entry["name"]) if isinstance(entry, dict) and "name" in entry else ""


def _line(name: str, mistake: Mistake) -> str:
    place = name if mistake.line is None else f"{name}:{mistake.line}"
    return f"{place}: {_dotted(mistake.path)}: {mistake.message}" if mistake.path else f"{place}: {mistake.message}"


def _dotted(path: yaml_text.KeyPath) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("_", "").replace("-", "").isalnum():
            text += f".{step}" if text else step
        else:
            text += f"[{_short(repr(step))}]"
    return text


def _checked(document: Document) -> Config | None:
    value = document.value
    if value is None:
        document.mistakes.append(
            Mistake(1, (), "the file is empty; write a key such as 'servers:', or remove the file")
        )
    elif not isinstance(value, dict):
        document.mistakes.append(Mistake(document.line_of(()), (), f"must be keys with values, got {_kind(value)}"))
    else:
        # A section whose lines are all comments is as good as none.
        said = {key: item for key, item in value.items() if item is not None or key not in Config.model_fields}
        kept = [at for at in range(len(value["servers"])) if at not in document.unset] if document.unset else None
        if kept is not None:
            said["servers"] = [value["servers"][at] for at in kept]
        try:
            return Config.model_validate(said)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=True)
            document.mistakes.extend(_mistake(document, _where_it_stands(one, kept)) for one in found)
    return None


def _where_it_stands(error: ErrorDetails, kept: list[int] | None) -> ErrorDetails:
    """With the place in the file of a server that is checked without those before it."""
    match error["loc"]:
        case ("servers", int(at), *rest) if kept is not None:
            return {**error, "loc": ("servers", kept[at], *rest)}
    return error


def _mistake(document: Document, error: ErrorDetails) -> Mistake:
    path: yaml_text.KeyPath = tuple(step for step in error["loc"] if step != "[key]")
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            message = f"unknown key{_meant(str(path[-1]), _keys_at(path[:-1]))}"
        case "missing":
            message = "is missing"
        case "key":
            path = (*path, *(int(step) if step.isdigit() else step for step in context["key"].split(".")))
            message = context["message"]
        case "literal_error":
            choices = str(context["expected"])
            message = f"must be {choices}, got {_got(document, path, error)}"
            message += _meant(str(error["input"]), choices.replace(" or ", ", ").replace("'", "").split(", "))
        case "must_be":
            message = f"must be {context['what']}, got {_got(document, path, error)}"
        case kind:
            must = _TYPES.get(kind)
            message = f"must be {must}, got {_got(document, path, error)}" if must else error["msg"]
            if kind == "string_type" and isinstance(error["input"], (int, float)):
                message += "; put it in quotes"
    return Mistake(document.line_of(path), path, message)


def _got(document: Document, path: yaml_text.KeyPath, error: ErrorDetails) -> str:
    """What the file says there, before variables are filled in."""
    if _SECRET & {*path}:
        return "something else"
    if isinstance(error["input"], (dict, list)) or path not in document.texts:
        return _kind(error["input"])
    text = document.texts[path]
    return _short(repr(text)) if isinstance(error["input"], str) else _short(text or "nothing")


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "keys with values"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "nothing" if value is None else _short(repr(value))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _meant(word: str, known: list[str]) -> str:
    if _OTHER_WORDS.get(word) in known:
        return f"; did you mean {_OTHER_WORDS[word]!r}?"
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _keys_at(path: yaml_text.KeyPath) -> list[str]:
    """The keys that the section at a path may have."""
    # Any: annotations are whatever the typing module makes of them.
    kind: Any = Config
    for step in path:
        kind = _plain_kind(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = kind.model_fields[str(step)].annotation
        else:
            # A list's items or a mapping's values.
            kind = [one for one in typing.get_args(kind) if one is not Ellipsis][-1]
    kind = _plain_kind(kind)
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _plain_kind(kind: Any) -> Any:
    """Without `None`."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next(one for one in typing.get_args(kind) if one is not type(None))
    return kind
