"""Arguments of tools that an execution's caller answers: checked here, since no router serves their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from toolfold.errors import ToolArgumentsInvalid
from toolfold.models import Call, Json, ToolSpec, Value
from toolfold.tools.router import error_text
from toolfold.tools.schema import argument_check

_SAYS_MORE: Final = frozenset(
    {
        "$dynamicRef", "$ref", "additionalProperties", "allOf", "anyOf", "dependentSchemas", "if", "oneOf",
        "patternProperties", "unevaluatedProperties",
    }
)  # fmt: skip
"""With one of these, the names under `properties` need not be all that there are."""


class OutsideChecks:
    """Made for one execution; a tool's schema is read at its first call."""

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._checks: dict[str, Callable[[Mapping[str, Value]], Mapping[str, Value]]] = {}

    def fault(self, call: Call) -> str | None:
        """What the program is told if the call must not be handed out."""
        check = self._checks.get(call.tool)
        if check is None:
            check = self._checks[call.tool] = outside_check(self._specs[call.tool])
        try:
            check(call.arguments)
        except ToolArgumentsInvalid as error:
            return error_text(call.tool, error)
        return None


def outside_check(spec: ToolSpec) -> Callable[[Mapping[str, Value]], Mapping[str, Value]]:
    """As `argument_check`, for a tool whose call leaves this process as it is."""
    return argument_check(_closed(spec))


def _closed(spec: ToolSpec) -> ToolSpec:
    """Without arguments that the schema does not name: the check before the run refuses them by the same rule."""
    schema: Mapping[str, Json] = spec.input_schema
    if not schema.get("properties") or not _SAYS_MORE.isdisjoint(schema):
        return spec
    return replace(spec, input_schema={**schema, "additionalProperties": False})
