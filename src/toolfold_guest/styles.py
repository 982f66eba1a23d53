"""How a program speaks to its tools: does it await every call, none, or some of them?

The answer decides what the bare name of a tool is. Pure text and trees in, words out; the Monty engine asks, too.
"""

import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

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


class ToolFacts(NamedTuple):
    """What the host tells of a tool, in the order in which the message has it."""

    name: str
    python_name: str
    aliases: tuple[str, ...]
    domain: str
    short_name: str
    """What the domain's module calls it too; empty for nothing."""
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    takes_object: bool
    """The first parameter accepts an object, so one positional dict may be meant for it."""
    doc: str
    signature: str = ""
    """As `(*, name: type = default) -> type`; empty unless the program looks at it."""
    is_read_only: bool = False


def bind(facts: ToolFacts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Positional arguments in schema order, or one dict that holds them all, to named ones."""
    if len(args) == 1 and not kwargs and isinstance(args[0], dict) and _is_arguments(facts, args[0]):
        return args[0]
    if len(args) > len(facts.parameters):
        count = len(facts.parameters)
        raise TypeError(f"{facts.python_name}() takes {count} positional arguments but {len(args)} were given")
    bound = dict(zip(facts.parameters, args, strict=False))
    respelt = _respelt(facts.parameters)
    for word, value in kwargs.items():
        name = respelt.get(word, word)
        if name in bound:
            raise TypeError(f"{facts.python_name}() got multiple values for argument {word!r}")
        bound[name] = value
    return bound


def _respelt(parameters: tuple[str, ...]) -> dict[str, str]:
    """Parameters that are no identifiers, by what programs write: `user_id` for `user-id`, `from_` for `from`."""
    odd = [name for name in parameters if not name.isidentifier() or name in KEYWORDS]
    words = ((re.sub(r"\W", "_", name), name) for name in odd)
    spelt = {f"{word}_" if word in KEYWORDS else word: name for word, name in words}
    return {word: name for word, name in spelt.items() if word not in parameters}


def _is_arguments(facts: ToolFacts, value: dict[Any, Any]) -> bool:
    if not facts.takes_object:
        return True
    return value.keys() <= set(facts.parameters) and value.keys() >= set(facts.required)


KEYWORDS: Final = frozenset(keyword.kwlist)

SEVERAL: Final = 3
"""So many calls of one tool, one after another, are worth a word."""
MOST_NOTES: Final = 3
"""On a value: of a hundred rows with the same oddity, three tell enough."""


def parallel_hints(in_place: Mapping[str, int]) -> list[str]:
    """What to write instead of calls that were made one after another."""
    return [
        f"{count} calls of {name!r} ran one after another; "
        f"'await asyncio.gather(*[{name}(...) for ...])' runs independent calls at once"
        for name, count in in_place.items()
        if count >= SEVERAL
    ]
