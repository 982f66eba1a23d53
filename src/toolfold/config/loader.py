"""Loader of `toolfold.yaml`: finds and reads the file, and reports every mistake with its line and key."""

from __future__ import annotations

import difflib
import logging
import os
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

# PyYAML ships no types, and its stubs are no dependency of ours.
import yaml  # type: ignore[import-untyped]
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from toolfold.config.discovery import FILE_NAME, display_path, read_env_file
from toolfold.config.model import Config, ServerConfig
from toolfold.errors import UsageError

# ----------------------------------------------------------------------------------------------------
# YAML text to plain values, with the line of every key and item.
#
# PyYAML's own constructor forgets lines and takes the last of two equal keys; so this walks the
# nodes that it composes. Tags that make objects are refused, aliases are followed within a limit.

KeyPath: TypeAlias = tuple[str | int, ...]

MAX_VALUES: Final = 100_000
"""Values in one file once aliases are followed; more is an attack or a mistake."""
_PLAIN: Final = frozenset({"str", "int", "float", "bool", "null", "timestamp"})
_VARIABLE: Final = re.compile(r"\$(?:\$|\{(?P<name>[^}:]*)(?::-(?P<default>[^}]*))?\})")


@dataclass(frozen=True, slots=True)
class Mistake:
    """Mistake in a config file, with its line and key."""

    line: int | None
    path: KeyPath
    message: str


@dataclass(slots=True)
class ConfigDocument:
    """The values of a file, and the line of each."""

    value: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    texts: dict[KeyPath, str] = field(default_factory=dict)
    """Scalars as written, before variables were filled in: those may be secret."""
    variables: dict[str, str] = field(default_factory=dict)
    """What was filled in from the environment."""
    uses: set[tuple[str, str | int | None]] = field(default_factory=set)
    """Each of them with the server whose section uses it, by its place; `None` anywhere else."""
    mistakes: list[Mistake] = field(default_factory=list)
    unset: dict[int, list[str]] = field(default_factory=dict)
    """Variables that are not set, by the place of the server in `servers` that needs them."""

    def line_of(self, path: KeyPath) -> int:
        """Line of the deepest part of a path that the file has."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_document(text: str, environment: Mapping[str, str] | None = None) -> ConfigDocument:
    """Parse the text of a config; mistakes are returned, never raised."""
    document = ConfigDocument()
    loader = yaml.SafeLoader(text) if _is_printable(text, document) else None
    if loader is None:
        return document
    try:
        node = loader.get_single_node()
        if node is not None:
            document.value = _Walk(loader, document, os.environ if environment is None else environment).value(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.mistakes.append(Mistake(mark.line + 1 if mark else None, (), _yaml_message(error)))
    except RecursionError:
        document.mistakes.append(Mistake(None, (), "values are nested too deep"))
    finally:
        loader.dispose()
    return document


def _is_printable(text: str, document: ConfigDocument) -> bool:
    try:
        yaml.reader.Reader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        document.mistakes.append(
            Mistake(line, (), f"holds the character {error.character:#x}, which YAML does not allow")
        )
    return not document.mistakes


def _yaml_message(error: yaml.MarkedYAMLError) -> str:
    problem = " ".join(str(error.problem or error.context).split())
    if "'\\t'" in problem:
        return "a tab where YAML requires spaces; indent with spaces"
    if "could not determine a constructor for the tag" in problem:
        return problem.replace("could not determine a constructor for", "cannot read")
    return f"not YAML: {error.context} {problem}" if problem.startswith("but ") else f"not YAML: {problem}"


class _Walk:
    def __init__(self, loader: Any, document: ConfigDocument, environment: Mapping[str, str]) -> None:
        self._loader = loader
        self._document = document
        self._environment = environment
        self._within: set[int] = set()
        self._remaining_values = MAX_VALUES

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        self._remaining_values -= 1
        if self._remaining_values < 0 or id(node) in self._within:
            problem = "an alias that contains itself" if id(node) in self._within else "too many values"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self._within.add(id(node))
        try:
            return self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._sequence(node, path)
        finally:
            self._within.remove(id(node))

    def _sequence(self, node: yaml.Node, path: KeyPath) -> list[Any]:
        self._check_tag(node, "seq")
        return [self.value(item, (*path, at)) for at, item in enumerate(node.value)]

    def _mapping(self, node: yaml.Node, path: KeyPath) -> dict[str, Any]:
        self._check_tag(node, "map")
        self._check_keys(node, path)
        # Merge keys (`<<`) come first, so a key of the mapping's own wins.
        self._loader.flatten_mapping(node)
        result: dict[str, Any] = {}
        for key, item in node.value:
            if isinstance(key, yaml.ScalarNode):
                self._document.lines[(*path, key.value)] = key.start_mark.line + 1
                result[key.value] = self.value(item, (*path, key.value))
        return result

    def _check_keys(self, node: yaml.Node, path: KeyPath) -> None:
        first: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._mistake(line, path, "a key must be text")
            elif key.value in first:
                self._mistake(line, (*path, key.value), f"the key is already in line {first[key.value]}; keep one")
            else:
                first[key.value] = line

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind not in _PLAIN:
            self._check_tag(node, "str")
        self._document.texts[path] = node.value
        if kind in ("str", "timestamp"):
            return self._fill_variables(node, path)
        try:
            return self._loader.construct_object(node)
        except (ValueError, KeyError):
            # An explicit tag such as `!!int x`.
            raise yaml.MarkedYAMLError(
                problem=f"{node.value!r} is not of type {kind}", problem_mark=node.start_mark
            ) from None

    def _fill_variables(self, node: yaml.ScalarNode, path: KeyPath) -> str:
        """The text with each `${NAME}` and `${NAME:-default}` replaced; `$$` is one dollar sign."""

        def fill(match: re.Match[str]) -> str:
            name = match["name"]
            if name is None:
                return "$"
            value = self._environment.get(name)
            # As in a shell: the default also stands in for an empty variable.
            if value or (value is not None and match["default"] is None):
                self._document.variables[name] = value
                self._document.uses.add((name, path[1] if path[:1] == ("servers",) and len(path) > 1 else None))
                return value
            if match["default"] is None and len(path) > 1 and path[0] == "servers" and isinstance(path[1], int):
                # One server can do without: the others, and all else in the file, do not need it.
                self._document.unset.setdefault(path[1], []).append(name)
            elif match["default"] is None:
                # The text may begin lines above the variable.
                line = node.start_mark.line + 1 + node.value.count("\n", 0, match.start())
                self._mistake(line, path, f"variable {name!r} is not set; set it, or write ${{{name}:-default}}")
            return match["default"] or ""

        return _VARIABLE.sub(fill, node.value)

    def _check_tag(self, node: yaml.Node, kind: str) -> None:
        if node.tag != f"tag:yaml.org,2002:{kind}":
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            raise yaml.MarkedYAMLError(problem=f"the tag {tag!r} is not allowed", problem_mark=node.start_mark)

    def _mistake(self, line: int, path: KeyPath, message: str) -> None:
        self._document.mistakes.append(Mistake(line, path, message))


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
    name = display_path(path)
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
    config = None if document.mistakes else _check(document)
    if config is not None:
        config._variables = document.variables
        config._uses = frozenset((name, _server_name(document.value, at)) for name, at in document.uses)
        config._place = lambda path: f"{name}:{document.line_of(path)}: {_dotted(path)}"
        left_out = {}
        for at, variables in sorted(document.unset.items()):
            server, why = _server_name(document.value, at), unset_text(variables)
            left_out[server] = why.partition(";")[0]
            label = repr(server) if server else f"servers[{at}]"
            _log.warning("%s:%s: server %s is left out: %s", name, document.line_of(("servers", at)), label, why)
        return with_left_out(config, left_out)
    mistakes = sorted(document.mistakes, key=lambda mistake: mistake.line or 0)
    lines = [_line(name, mistake) for mistake in mistakes[:_SHOWN_MISTAKES]]
    if len(mistakes) > _SHOWN_MISTAKES:
        lines.append(f"{name}: {len(mistakes) - _SHOWN_MISTAKES} more mistakes")
    error = UsageError("\n".join(lines))
    error.mistakes = tuple(lines)
    raise error


def unset_text(variables: Iterable[str]) -> str:
    *more, last = dict.fromkeys(repr(name) for name in variables)
    if not more:
        return f"variable {last} is not set; set it"
    return f"variables {', '.join(more)} and {last} are not set; set them"


def left_out_servers(config: Config) -> Mapping[str, str]:
    """Servers that were left out, and why, in words for a model."""
    return config._left_out


def with_left_out(config: Config, left_out: Mapping[str, str]) -> Config:
    config._left_out = {**config._left_out, **left_out}
    return config


def with_env_file(server: ServerConfig, folder: Path) -> ServerConfig:
    """The server with the variables of its `env_file`; `env` takes precedence."""
    if server.env_file is None:
        return server
    try:
        variables = read_env_file(folder / server.env_file)
    except UsageError as error:
        raise UsageError(f"env_file {server.env_file!r} {error}") from None
    return server.model_copy(update={"env": {**variables, **server.env}})


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
def _server_name(value: Any, at: str | int | None) -> str:
    entry = value["servers"][at] if isinstance(at, int) else None
    return str(entry["name"]) if isinstance(entry, dict) and "name" in entry else ""


def _line(name: str, mistake: Mistake) -> str:
    place = name if mistake.line is None else f"{name}:{mistake.line}"
    return f"{place}: {_dotted(mistake.path)}: {mistake.message}" if mistake.path else f"{place}: {mistake.message}"


def _dotted(path: KeyPath) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("_", "").replace("-", "").isalnum():
            text += f".{step}" if text else step
        else:
            text += f"[{_short(repr(step))}]"
    return text


def _check(document: ConfigDocument) -> Config | None:
    value = document.value
    if value is None:
        document.mistakes.append(
            Mistake(1, (), "the file is empty; write a key such as 'servers:', or remove the file")
        )
    elif not isinstance(value, dict):
        document.mistakes.append(Mistake(document.line_of(()), (), f"must be keys with values, got {_kind(value)}"))
    else:
        # A section whose lines are all comments is as good as none.
        sections = {key: item for key, item in value.items() if item is not None or key not in Config.model_fields}
        server_indexes = (
            [at for at in range(len(value["servers"])) if at not in document.unset] if document.unset else None
        )
        if server_indexes is not None:
            sections["servers"] = [value["servers"][at] for at in server_indexes]
        try:
            return Config.model_validate(sections)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=True)
            document.mistakes.extend(
                _mistake(document, _with_file_index(details, server_indexes)) for details in errors
            )
    return None


def _with_file_index(error: ErrorDetails, server_indexes: list[int] | None) -> ErrorDetails:
    """The error with the place of its server in the file, where others before it were left out."""
    match error["loc"]:
        case ("servers", int(at), *rest) if server_indexes is not None:
            return {**error, "loc": ("servers", server_indexes[at], *rest)}
    return error


def _mistake(document: ConfigDocument, error: ErrorDetails) -> Mistake:
    path: KeyPath = tuple(step for step in error["loc"] if step != "[key]")
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            message = f"unknown key{_suggestion(str(path[-1]), _keys_at(path[:-1]))}"
        case "missing":
            message = "is missing"
        case "key":
            path = (*path, *(int(step) if step.isdigit() else step for step in context["key"].split(".")))
            message = context["message"]
        case "literal_error":
            choices = str(context["expected"])
            message = f"must be {choices}, got {_actual_text(document, path, error)}"
            message += _suggestion(str(error["input"]), choices.replace(" or ", ", ").replace("'", "").split(", "))
        case "must_be":
            message = f"must be {context['what']}, got {_actual_text(document, path, error)}"
        case kind:
            must = _TYPES.get(kind)
            message = f"must be {must}, got {_actual_text(document, path, error)}" if must else error["msg"]
            if kind == "string_type" and isinstance(error["input"], (int, float)):
                message += "; put it in quotes"
    return Mistake(document.line_of(path), path, message)


def _actual_text(document: ConfigDocument, path: KeyPath, error: ErrorDetails) -> str:
    """The text in the file, before variables are filled in."""
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


def _suggestion(word: str, names: list[str]) -> str:
    if _OTHER_WORDS.get(word) in names:
        return f"; did you mean {_OTHER_WORDS[word]!r}?"
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _keys_at(path: KeyPath) -> list[str]:
    # Any: annotations are whatever the typing module makes of them.
    kind: Any = Config
    for step in path:
        kind = _plain_kind(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = kind.model_fields[str(step)].annotation
        else:
            # A list's items or a mapping's values.
            kind = [argument for argument in typing.get_args(kind) if argument is not Ellipsis][-1]
    kind = _plain_kind(kind)
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _plain_kind(kind: Any) -> Any:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next(argument for argument in typing.get_args(kind) if argument is not type(None))
    return kind
