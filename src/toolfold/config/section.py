"""What every part of `toolfold.yaml` is made of: sections without stray keys, and texts of a form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints
from pydantic_core import PydanticCustomError

from toolfold.config.units import must_be


def wrong_key(key: str, message: str) -> PydanticCustomError:
    """An error of one key, raised by a check that sees the whole section."""
    return PydanticCustomError("key", "{message}", {"message": message, "key": key})


def check_texts(key: str, texts: Iterable[str], *, is_one_line: bool = False) -> None:
    """Refuse a text that no process and no request can be given.

    Raises:
        PydanticCustomError: an error of this key.
    """
    for text in texts:
        if "\0" in text:
            raise wrong_key(key, "has a NUL character, which cannot be passed on; remove it")
        if any("\ud800" <= sign <= "\udfff" for sign in text):
            raise wrong_key(key, "has half of a surrogate pair, which cannot be passed on; write the whole character")
        if is_one_line and any(sign < " " and sign != "\t" for sign in text):
            raise wrong_key(key, "has a line break or another control character; remove it")


class Section(BaseModel):
    """A part of the file: no key that is not listed, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


def _is_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        # Port 0 is nowhere; reading one that is no number raises.
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or re.search(r"\s", text):
        raise must_be("a URL such as http://localhost:8080/mcp")
    return text


Text = Annotated[str, StringConstraints(min_length=1)]
Url = Annotated[str, AfterValidator(_is_url)]
Globs = tuple[Text, ...]
