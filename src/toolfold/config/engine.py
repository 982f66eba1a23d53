"""The name of an engine in a `toolfold.yaml`: a built-in one, or one that another distribution registers."""

from typing import Annotated

from pydantic import AfterValidator, Field

from toolfold.config.units import must_be
from toolfold.engines.registry import BUILT_IN, engine_names, known_engine
from toolfold.errors import UsageError


def _known(name: str) -> str:
    try:
        return known_engine(name)
    except UsageError:
        *first, last = map(repr, engine_names())
        raise must_be(f"{', '.join(first)} or {last}") from None


EngineName = Annotated[str, AfterValidator(_known), Field(examples=[*BUILT_IN])]
