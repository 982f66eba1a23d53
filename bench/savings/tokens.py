"""How text is counted: with a real tokenizer where one is at hand, else by its length."""

import importlib
import json
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from toolfold.execution.outcome import BYTES_PER_TOKEN

VOCABULARY = "o200k_base"

Count = Callable[[str], int]


def tokenizer(home: Path) -> tuple[Count, str]:
    """Counts the tokens of a text, and what that is called.

    tiktoken fetches its vocabulary from the network, except where it lies in a folder that it is told of;
    llama-index-core carries it there. tiktoken itself compares the file with the hash that it expects.
    """
    os.environ["TIKTOKEN_CACHE_DIR"] = str(home / "llama_index/core/_static/tiktoken_cache")
    try:
        encoding = importlib.import_module("tiktoken").get_encoding(VOCABULARY)
    except Exception as error:  # noqa: BLE001  # no wheel for this machine, no file: whatever it is, we can estimate
        return estimate, f"characters / {BYTES_PER_TOKEN}, an estimate ({type(error).__name__}: no tokenizer here)"

    @lru_cache(maxsize=100_000)
    def count(text: str) -> int:
        return len(encoding.encode_ordinary(text))

    return count, f"{VOCABULARY} (tiktoken)"


def estimate(text: str) -> int:
    """A token has about four characters of English or JSON."""
    return round(len(text) / BYTES_PER_TOKEN)


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as `toolfold.execution.outcome` counts it."""
    return f"{name}{reply_text(arguments)}"


def reply_text(value: Any) -> str:
    """A reply as a model reads it: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
