"""Names of bridged tools: as Claude Code spells them, as Python can, and short ones in the server's module.

* `name` is `mcp__<server>__<tool>`. In both parts each UTF-16 unit outside `[A-Za-z0-9_-]` is `_`.
* Where several tools come to one name, the one that is spelt exactly so keeps it; each other ends in
  `_` and six hex digits made from its own name. One longer than 128 is cut to 128 in the same way.
* `python_name` is the name with `_` for `-`; further collisions are the catalog's to settle.
* The plain spelling is an alias where it is another identifier: `mcp__wetter__größe`, or a long name uncut.
* `short_name` is the tool's own name as an identifier: `from tools.<server> import <short_name>`.
"""

from __future__ import annotations

import hashlib
import keyword
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

MAX_CHARACTERS: Final = 128
"""Claude Code drops tools with longer names in silence."""
_DIGITS: Final = 6
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Names:
    """What one tool is called."""

    name: str
    python_name: str
    aliases: tuple[str, ...]
    domain: str
    short_name: str


def names_of(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Names]:
    """The names of each `(server, tool)`; their order does not matter."""
    keys = sorted(set(tools))
    servers = {server for server, _ in keys}
    domains = _unique({(server,): (identifier(server), server) for server in servers})
    names = _unique({key: (f"mcp__{clean(key[0])}__{clean(key[1])}", f"mcp__{key[0]}__{key[1]}") for key in keys})
    shorts: dict[tuple[str, ...], str] = {}
    for server in servers:
        shorts |= _unique({key: (identifier(key[1]), key[1]) for key in keys if key[0] == server})
    return {key: _names(key, names[key], domains[key[0],], shorts[key]) for key in keys}


def clean(text: str) -> str:
    """One part of a name, by Claude Code's rule."""
    return _FOREIGN.sub(lambda sign: "_" * (2 if ord(sign[0]) > 0xFFFF else 1), text)


def identifier(text: str) -> str:
    """A name as Python can write it: itself where it is one, else with `_` for what cannot be."""
    # Python reads every identifier in this form, so a name in another would never be found.
    plain = unicodedata.normalize("NFKC", text)
    if not plain.isidentifier():
        plain = clean(text).replace("-", "_")
    if not plain or plain[0].isdigit():
        plain = f"_{plain}"
    return f"{plain}_tool" if keyword.iskeyword(plain) else plain


def _names(key: tuple[str, str], name: str, domain: str, short: str) -> Names:
    python_name = name.replace("-", "_")
    plain = unicodedata.normalize("NFKC", f"mcp__{key[0]}__{key[1]}")
    spelt = {plain, plain.replace("-", "_")}
    aliases = tuple(sorted(one for one in spelt if one != python_name and one.isidentifier()))
    return Names(name, python_name, aliases, domain, short)


def _unique(wishes: Mapping[tuple[str, ...], tuple[str, str]]) -> dict[tuple[str, ...], str]:
    """From wish and plain spelling to names, no two alike, none too long."""
    count = Counter(wish for wish, _ in wishes.values())
    exact = Counter(wish for wish, plain in wishes.values() if wish == plain)
    settled: dict[tuple[str, ...], str] = {}
    for key, (wish, plain) in wishes.items():
        keeps_it = count[wish] == 1 or (wish == plain and exact[wish] == 1)
        settled[key] = wish if keeps_it and len(wish) <= MAX_CHARACTERS else _marked(wish, key)
    return settled


def _marked(wish: str, key: tuple[str, ...]) -> str:
    digest = hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{wish[: MAX_CHARACTERS - _DIGITS - 1]}_{digest}"
