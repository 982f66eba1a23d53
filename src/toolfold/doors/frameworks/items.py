"""What an SDK gives, as the plain dict that its API would have sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from toolfold.errors import UsageError

# Any: a JSON object in a shape of the API's.
Item: TypeAlias = dict[str, Any]


# Any: a model of the SDK, or the same as a dict.
def as_item(given: Any, what: str) -> Item:
    """Read one block, definition or call.

    Args:
        given: The model or dict.
        what: What it is, for the error.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "model_dump"):
        return dict(given.model_dump(mode="json", by_alias=True, exclude_none=True))
    raise UsageError(f"{what} is an object of the SDK or a dict, got {type(given).__name__!r}")
