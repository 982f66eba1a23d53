"""Definitions of tools: `ToolDefinition`, `ToolParameter` and `ToolCatalog`, and their form as a `ToolSpec`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from toolfold.errors import UsageError
from toolfold.models import Json, ToolSpec
from toolfold.prompts.schema_types import text_schema
from toolfold.sources.agent_tools import MESSAGE_SCHEMA
from toolfold.tools.tool import RetryWhen, python_name

ToolType = Literal["mcp", "function", "code_exec", "agent"]

_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object", "null", "any"})
_PYTHON_TYPES: Final = {
    "str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object",
}  # fmt: skip
CODE_SCHEMA: Final = text_schema("code", "A Python program.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParameter:
    """One argument of a tool."""

    name: str
    type: str = "any"
    """A JSON Schema type, or `any`."""
    description: str = ""
    required: bool = False
    enum: Sequence[Json] | None = None
    items: Mapping[str, Json] | None = None
    """Of an `array`: the schema of its items."""
    properties: Mapping[str, Json] | None = None
    """Of an `object`: the schemas of its properties."""
    default: Json = None

    def __post_init__(self) -> None:
        if not self.name:
            raise UsageError(f"a parameter needs a name, got {self.name!r}")
        if self.type not in _TYPES:
            suggestion = _PYTHON_TYPES.get(self.type) or next(
                iter(difflib.get_close_matches(str(self.type), _TYPES, 1)), ""
            )
            hint = f"; did you mean {suggestion!r}?" if suggestion else f"; there are {', '.join(sorted(_TYPES))}"
            raise UsageError(f"parameter {self.name!r} has no known type {self.type!r}{hint}")

    def schema(self) -> dict[str, Json]:
        """As a property of a JSON Schema."""
        schema: dict[str, Json] = {} if self.type == "any" else {"type": self.type}
        keywords = {"enum": self.enum and list(self.enum), "items": self.items, "properties": self.properties}
        schema.update({key: value for key, value in keywords.items() if value is not None})
        if self.description:
            schema["description"] = self.description
        if self.default is not None:
            schema["default"] = self.default
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """One tool: what programs may know of it, and the kind of thing that serves it."""

    name: str
    type: ToolType = "mcp"
    domain: str = ""
    """The module that programs import it from, and the `server` of `call_tool`."""
    description: str = ""
    parameters: Sequence[ToolParameter] = ()
    input_schema: Mapping[str, Json] | None = None
    """Instead of `parameters`, where those cannot say it."""
    output_schema: Mapping[str, Json] | None = None
    examples: Sequence[Mapping[str, Json]] = ()
    url: str = ""
    """Of an `agent`: its A2A endpoint; without one, a worker serves it."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of an `agent`: sent with every request to it."""
    timeout_seconds: float | None = None
    cache_seconds: float = 0.0
    """How long a reply may be given again to the same arguments; 0 is not at all."""
    retry: RetryWhen | None = None
    """When a failed call is made again; by default `always`, and `never` for a `code_exec`."""
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The host's own; nothing here reads it."""

    def __post_init__(self) -> None:
        if not self.name:
            raise UsageError(f"a tool needs a name, got {self.name!r}")
        if self.type not in get_args(ToolType):
            raise UsageError(f"tool {self.name!r} has no known type {self.type!r}; {', '.join(get_args(ToolType))}")
        if self.url and self.type != "agent":
            raise UsageError(f"tool {self.name!r} has a url, which only a tool of type 'agent' has")
        if self.parameters and self.input_schema is not None:
            raise UsageError(f"tool {self.name!r} has parameters and an input_schema; keep one of the two")
        if self.retry is not None and self.retry not in get_args(RetryWhen):
            raise UsageError(f"tool {self.name!r} has no known retry {self.retry!r}; {', '.join(get_args(RetryWhen))}")
        if not self.cache_seconds >= 0:
            raise UsageError(f"cache_seconds of tool {self.name!r} must be 0 or more, got {self.cache_seconds!r}")
        names = [parameter.name for parameter in self.parameters]
        duplicates = [name for at, name in enumerate(names) if name in names[:at]]
        if duplicates:
            raise UsageError(f"tool {self.name!r} has two parameters named {duplicates[0]!r}")

    @property
    def server(self) -> str:
        """How `call_tool` and stubs name the place of this tool."""
        return self.domain or ("function" if self.type == "function" else "default")

    def spec(self, name: str = "") -> ToolSpec:
        """The same, in the words of the rest of this package, under the name that a catalog has it by."""
        is_shared = name not in ("", self.name)
        return ToolSpec(
            name=name or self.name, python_name=python_name(f"{self.domain}__{self.name}" if is_shared else self.name),
            domain=python_name(self.domain) if self.domain else "",
            short_name=python_name(self.name) if is_shared else "", description=self.description,
            input_schema=self._input_schema(), output_schema=self.output_schema, examples=tuple(self.examples),
            read_only=self.read_only, idempotent=self.idempotent, destructive=self.destructive,
            timeout_seconds=self.timeout_seconds, cache_seconds=self.cache_seconds, source=f"orchestrator:{self.type}",
        )  # fmt: skip

    def _input_schema(self) -> Mapping[str, Json]:
        if self.input_schema is not None:
            return self.input_schema
        if not self.parameters and self.type == "code_exec":
            return CODE_SCHEMA
        if not self.parameters and self.type == "agent":
            return MESSAGE_SCHEMA
        return {
            "type": "object",
            "properties": {parameter.name: parameter.schema() for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.required],
            "additionalProperties": False,
        }


class ToolCatalog:
    """Tools of one application, by name, or by `domain.name` where several domains have one of that name.

    May grow while an executor uses it.
    """

    def __init__(self, source: str = "", version: str = "1.0") -> None:
        self.source = source
        self.version = version
        self._shared_names: set[str] = set()
        self.tools: Mapping[str, ToolDefinition] = {}
        """Replaced, never changed in place: whoever holds it sees one state."""

    def add_tool(self, definition: ToolDefinition) -> None:
        """Add one.

        Raises:
            UsageError: there is one of that name in its domain, or one of the two has no domain.
        """
        if not isinstance(definition, ToolDefinition):
            raise UsageError(f"a catalog holds ToolDefinitions, got {type(definition).__name__}")
        tools = {**self.tools, definition.name: definition}
        if definition.name in self.tools or definition.name in self._shared_names:
            tools = self._with_namesake(definition)
        self.tools = tools

    def _with_namesake(self, definition: ToolDefinition) -> dict[str, ToolDefinition]:
        """The tools, those of the name that several domains have by `domain.name`."""
        definitions = [*self.tools.values(), definition]
        domains = [other.spec().domain for other in definitions if other.name == definition.name]
        if len(set(domains)) < len(domains) or "" in domains:
            raise UsageError(f"two tools are named {definition.name!r}; give one of them another name")
        self._shared_names.add(definition.name)
        names = (f"{other.domain}." * (other.name in self._shared_names) + other.name for other in definitions)
        return dict(zip(names, definitions, strict=True))

    def get_tool(self, name: str) -> ToolDefinition | None:
        """The tool with exactly this name; `domain.name` where several domains have it."""
        return self.tools.get(name)

    def name_at(self, name: str, is_at: Callable[[ToolDefinition], bool]) -> str | None:
        """Name in this catalog of a definition's tool, of those for which `is_at` is true."""
        definition = self.tools.get(name)
        if definition is not None:
            return name if is_at(definition) else None
        return next((key for key, other in self.tools.items() if other.name == name and is_at(other)), None)

    def __iter__(self) -> Iterator[ToolDefinition]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    def __contains__(self, name: object) -> bool:
        return name in self.tools
