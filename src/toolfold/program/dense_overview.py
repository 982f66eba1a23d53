"""Tools that are too many to be told: some signatures, and the names of the others by what they begin with. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Final

from toolfold.models import Json, ToolSpec
from toolfold.program.dense import Catalog, Detail
from toolfold.program.stub import function_name
from toolfold.program.words import largest, width

_SHORTEST_SIGNATURE: Final = 12
_HEAD: Final = "Find the signatures of these with `search_tools`, also inside a program:"


def overview_text(
    specs: Sequence[ToolSpec], used: Mapping[str, int], room: int, *,
    learned: Mapping[str, Mapping[str, Json]] | None = None,
) -> str:  # fmt: skip
    """Signatures of the first tools and the names of the others, as many as fit.

    Where all names fit, signatures take what is left; where not, half of the room is for tools that are used.
    """
    has_all_names = width(names_text(specs)) <= room
    most = len(specs) if has_all_names else sum(1 for spec in specs if used.get(spec.name))
    first = specs[: min(most, room // _SHORTEST_SIGNATURE)]
    catalog = Catalog(first, learned=learned)

    def signatures(count: int) -> str:
        shown = {spec.name for spec in first[:count]}
        return catalog.text({name: Detail.FIRST_SENTENCE if name in shown else Detail.NAME for name in catalog.names})

    def fits(count: int) -> bool:
        if not has_all_names:
            return width(signatures(count)) <= room // 2
        return width(_joined(signatures(count), names_text(specs[count:]))) <= room

    count = largest(len(first), fits)
    start = signatures(count)
    return _joined(start, names_within(specs[count:], room - width(start) - bool(start)))


def names_within(specs: Sequence[ToolSpec], room: int) -> str:
    """As many names as fit, in turn from each server, and how many there are besides; at worst nothing."""
    if width(whole := names_text(specs)) <= room:
        return whole
    text = names_text(specs, largest(len(specs), lambda count: width(names_text(specs, count)) <= room))
    return text if width(text) <= room else ""


def names_text(specs: Sequence[ToolSpec], most: int | None = None) -> str:
    """So many names, all unless told; `mcp__files__{read, write}` stands for two of them."""
    families: dict[str, list[str]] = {}
    for spec in specs:
        families.setdefault(_prefix(spec), []).append(function_name(spec))
    shown = set(islice(_in_turn(families.values()), most))
    lines = [_family(prefix, [name for name in names if name in shown], names) for prefix, names in families.items()]
    more = sum(len(names) for names in families.values() if shown.isdisjoint(names))
    lines = [line for line in lines if line] + ([f"and {more} more"] if more else [])
    return "\n".join([_HEAD, *lines]) if lines else ""


def _family(prefix: str, shown: Sequence[str], names: Sequence[str]) -> str:
    if not shown:
        return ""
    parts = [name.removeprefix(prefix) for name in shown]
    parts += [f"… {len(names) - len(shown)} more"] if len(shown) < len(names) else []
    return f"{prefix}{{{', '.join(parts)}}}" if prefix and len(names) > 1 else f"{prefix}{', '.join(parts)}"


def _prefix(spec: ToolSpec) -> str:
    """What the names of a server's tools begin with."""
    name = function_name(spec)
    if spec.short_name and name.endswith(spec.short_name):
        return name.removesuffix(spec.short_name)
    start, mark, _ = name.removeprefix("mcp__").partition("__")
    return f"mcp__{start}{mark}" if name.startswith("mcp__") and mark else ""


def _in_turn(families: Iterable[Sequence[str]]) -> Iterator[str]:
    return (name for together in zip_longest(*families) for name in together if name is not None)


def _joined(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
