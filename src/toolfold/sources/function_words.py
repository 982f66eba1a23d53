"""What the docstring of a function says of it, of its parameters and of what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolfold.sources.function_signature import Function, origin_of


@dataclass(frozen=True, slots=True)
class Words:
    """What a docstring says."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""

    @classmethod
    def of(cls, fn: Function) -> Words:
        """Read a Google, NumPy or Sphinx docstring; of any other, all is description."""
        text = inspect.getdoc(fn if inspect.isroutine(fn) or inspect.isclass(fn) else origin_of(fn)) or ""
        if "\n" not in text:
            return cls(description=text)
        # Imported here: it takes 25 ms, and many tools have a docstring of one line.
        import docstring_parser  # noqa: PLC0415

        try:
            parsed = docstring_parser.parse(text)
        except docstring_parser.ParseError:
            return cls(description=text)
        return cls(
            description=(parsed.description or "").strip(),
            parameters={one.arg_name: one.description for one in parsed.params if one.description},
            returns=(parsed.returns.description or "") if parsed.returns else "",
        )
