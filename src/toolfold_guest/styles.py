"""How a program speaks to its tools: does it await every call, none, or some of them?

The answer decides what the bare name of a tool is. Pure text and trees in, words out; the Monty engine asks, too.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal

Style = Literal["awaited", "in_place", "mixed"]
"""`awaited`: every call stands under `await` or in a `gather`, so a tool is a plain coroutine function.
`in_place`: nothing in the text could await anything, so a tool is a plain function.
`mixed`: a call is made when it is awaited or when its value is used, whichever comes first."""

_CAN_AWAIT: Final = re.compile(r"await|async|corout|gather|inspect|uvloop|anyio|trio")
_CLOSES: Final = re.compile(r"(\w*)\s*\.\s*(?:close|send|throw)\s*\(")
_OPENS: Final = r"\s*=\s*[\w.]*(?:open|reader|writer|connect|cursor|IO|File|figure|mmap)\w*\s*\("
_AWAITING: Final = (
    "await ", "gather(", "gather(*[", "gather(*(", "create_task(", "ensure_future(", "wait_for(", "as_completed([",
)  # fmt: skip
_LONGEST: Final = max(map(len, _AWAITING))
_QUOTES: Final = ("'", '"')


def style_of(text: str, names: Iterable[str]) -> Style:
    """The style in which a text calls the tools of these names."""
    if all(_is_always_awaited(text, name) for name in names) and not ("tools" in text and "import" in text):
        return "awaited"
    return "mixed" if _may_await(text) else "in_place"


def _is_always_awaited(text: str, name: str) -> bool:
    size, at = len(name), text.find(name)
    while at >= 0:
        end = at + size
        before, after = text[at - 1 : at], text[end : end + 1]
        is_name = not (before.isalnum() or before == "_" or after.isalnum() or after == "_")
        # In quotes, an attribute of something, or the name of an argument: not the tool.
        is_other = before == "." or (before in _QUOTES and after in _QUOTES) or (after == "=" and text[end + 1] != "=")
        if is_name and not is_other and not (after == "(" and text[max(0, at - _LONGEST) : at].endswith(_AWAITING)):
            return False
        at = text.find(name, end)
    return True


def _may_await(text: str) -> bool:
    """Whether anything in it could await a call, or close one that was never made."""
    if _CAN_AWAIT.search(text):
        return True
    return any(not _is_file(text, closed) for closed in set(_CLOSES.findall(text)))


def _is_file(text: str, name: str) -> bool:
    """A name that is opened, or imported, holds no call."""
    return bool(name) and bool(re.search(rf"\b{name}{_OPENS}|\bas {name}\b|\bimport [\w, ]*\b{name}\b|^plt$", text))
