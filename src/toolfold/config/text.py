"""YAML text to plain values, with the line of every key and item.

PyYAML's own constructor forgets lines and takes the last of two equal keys; so this walks the
nodes that it composes. Tags that make objects are refused, aliases are followed within a limit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

# PyYAML ships no types, and its stubs are no dependency of ours.
import yaml  # type: ignore[import-untyped]

KeyPath: TypeAlias = tuple[str | int, ...]

MAX_VALUES: Final = 100_000
"""Values in one file once aliases are followed; more is an attack or a mistake."""
_PLAIN: Final = frozenset({"str", "int", "float", "bool", "null", "timestamp"})
_VARIABLE: Final = re.compile(r"\$(?:\$|\{(?P<name>[^}:]*)(?::-(?P<default>[^}]*))?\})")


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong, and where."""

    line: int | None
    path: KeyPath
    message: str


@dataclass(slots=True)
class Document:
    """A file's values and where each stands."""

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
        """Of the deepest part of a path that the file has."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_document(text: str, environment: Mapping[str, str] | None = None) -> Document:
    """What the text says; never raises for the text."""
    document = Document()
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


def _is_printable(text: str, document: Document) -> bool:
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
        return "a tab where YAML wants spaces; indent with spaces"
    if "could not determine a constructor for the tag" in problem:
        return problem.replace("could not determine a constructor for", "cannot read")
    return f"not YAML: {error.context} {problem}" if problem.startswith("but ") else f"not YAML: {problem}"


class _Walk:
    """One walk through the nodes of one file."""

    def __init__(self, loader: Any, document: Document, environment: Mapping[str, str]) -> None:
        self._loader = loader
        self._document = document
        self._environment = environment
        self._within: set[int] = set()
        self._left = MAX_VALUES

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        self._left -= 1
        if self._left < 0 or id(node) in self._within:
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
                self._mistake(line, (*path, key.value), f"the key is in line {first[key.value]} already; keep one")
            else:
                first[key.value] = line

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind not in _PLAIN:
            self._check_tag(node, "str")
        self._document.texts[path] = node.value
        if kind in ("str", "timestamp"):
            return self._filled(node, path)
        try:
            return self._loader.construct_object(node)
        except (ValueError, KeyError):
            # An explicit tag such as `!!int x`.
            raise yaml.MarkedYAMLError(
                problem=f"{node.value!r} is not of type {kind}", problem_mark=node.start_mark
            ) from None

    def _filled(self, node: yaml.ScalarNode, path: KeyPath) -> str:
        """The text with each `${NAME}` and `${NAME:-default}` replaced; `$$` is one dollar sign."""

        def fill(match: re.Match[str]) -> str:
            name = match["name"]
            if name is None:
                return "$"
            found = self._environment.get(name)
            # As in a shell: the default also stands in for an empty variable.
            if found or (found is not None and match["default"] is None):
                self._document.variables[name] = found
                self._document.uses.add((name, path[1] if path[:1] == ("servers",) and len(path) > 1 else None))
                return found
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
            shown = node.tag.replace("tag:yaml.org,2002:", "!!")
            raise yaml.MarkedYAMLError(problem=f"the tag {shown!r} is not allowed", problem_mark=node.start_mark)

    def _mistake(self, line: int, path: KeyPath, message: str) -> None:
        self._document.mistakes.append(Mistake(line, path, message))
