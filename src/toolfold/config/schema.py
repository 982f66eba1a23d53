"""The JSON Schema of `toolfold.yaml`, for editors; `python -m toolfold.config.schema` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from toolfold.config.model import Config

FILE_NAME: Final = "config.schema.json"


class _Schema(GenerateJsonSchema):
    """Without titles made from names."""

    # Any: what pydantic hands over here is a large union that nothing looks into.
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def config_schema() -> dict[str, Any]:
    """Generated from the types that the loader checks with."""
    schema = Config.model_json_schema(schema_generator=_Schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "toolfold.yaml"}


def schema_text() -> str:
    """As it is shipped."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(__file__).parents[1].joinpath(FILE_NAME).write_text(schema_text(), encoding="utf-8")
