"""Catalog of tools by name and identifier. It does not know how a call goes, and never changes once made."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from heapq import nlargest
from itertools import islice
from operator import eq

from toolfold.errors import UsageError
from toolfold.models import ToolSpec
from toolfold.tools.tool import Globs, Tool, avoid_reserved_names, python_name, settle_identifiers, with_name


class Catalog:
    """Tools by name and by identifier, in the order given.

    Identifiers that collide are settled here (see `names`), so a tool's spec as this catalog
    holds it may differ from the one that was put in.

    Raises:
        UsageError: two tools have one name.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._originals: dict[str, Tool] = {}
        self._tools: dict[str, Tool] = {}
        """Tools with their final identifiers."""
        self._groups: dict[str, tuple[str, ...]] = {}
        """Names by the identifier that each would have alone."""
        self._names: dict[str, str] = {}
        self._aliased: dict[str, tuple[str, ...]] = {}
        self._add(tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Specs in the order given."""
        return tuple(tool.spec for tool in self)

    def get(self, name: str) -> Tool | None:
        """The tool with exactly this name."""
        return self._tools.get(name)

    def find(self, text: str) -> Tool | None:
        """The tool that a person or model means: by name, else by identifier or alias."""
        return self._tools.get(text) or self.by_python_name(text)

    def by_python_name(self, identifier: str) -> Tool | None:
        """The tool that a program calls by this identifier or alias."""
        name = self._names.get(identifier)
        if name is None and self._is_clear(identifier):
            name = self._aliased[identifier][0]
        return None if name is None else self._tools[name]

    def nearest(self, text: str) -> str | None:
        """The name most like a misspelt one, if any is."""
        # A true comparison is slow, so only with those that have most letters in the same places.
        near = [name for name in {*self._tools, *self._names} if abs(len(name) - len(text)) <= 3]
        likely = nlargest(50, sorted(near), key=lambda name: _same_places(name, text))
        close = difflib.get_close_matches(text, likely, n=1)
        return close[0] if close else None

    async def close(self) -> None:
        """Let go of what the tools hold open; each of those that share it would close the same."""
        for close in {tool.close for tool in self if tool.close is not None}:
            await close()

    def with_tools(self, extra: Iterable[Tool]) -> Catalog:
        """A catalog with these as well; costs little even if this one is large."""
        wider = Catalog()
        wider._originals = self._originals.copy()
        wider._tools = self._tools.copy()
        wider._groups = self._groups.copy()
        wider._names = self._names.copy()
        wider._aliased = self._aliased.copy()
        wider._add(extra)
        return wider

    # the same tools, seen otherwise

    def filtered(self, keep: Callable[[ToolSpec], bool] | str | Iterable[str]) -> Catalog:
        """Only the tools that a function says yes to, or that a pattern means: `["hr_*", "price"]`."""
        matches = keep if callable(keep) else Globs(keep).match
        return Catalog(self._originals[tool.spec.name] for tool in self if matches(tool.spec))

    def renamed(self, names: Mapping[str, str] | Callable[[str], str]) -> Catalog:
        """With other names, by table or by function; identifiers follow, and old aliases are dropped.

        Raises:
            UsageError: the table has a tool that is not here, or two tools come to one name.
        """
        for name in () if callable(names) else names:
            if name not in self:
                near = self.nearest(name)
                raise UsageError(f"no tool {name!r} to rename" + (f"; did you mean {near!r}?" if near else ""))
        rename = names if callable(names) else lambda name: names.get(name, name)
        return Catalog(with_name(tool, rename(name)) for name, tool in self._originals.items())

    def prefixed(self, prefix: str) -> Catalog:
        """With this before each name."""
        return self.renamed(lambda name: f"{prefix}{name}")

    def in_domain(self, domain: str) -> Catalog:
        """With every tool in this domain: `from tools.<domain> import ...`."""
        return Catalog(replace(tool, spec=replace(tool.spec, domain=domain)) for tool in self._originals.values())

    def _add(self, tools: Iterable[Tool]) -> None:
        bases = {base for base, names in self._groups.items() if len(names) > 1}
        aliases: set[str] = set()
        for original in tools:
            spec = avoid_reserved_names(original.spec)
            tool = original if spec is original.spec else replace(original, spec=spec)
            if spec.name in self._originals:
                first = self._originals[spec.name].spec.source
                raise UsageError(f"two tools are named {spec.name!r}: one from {first}, one from {spec.source}")
            self._originals[spec.name] = tool
            base = spec.python_name or python_name(spec.name)
            self._groups[base] = (*self._groups.get(base, ()), spec.name)
            for alias in spec.aliases:
                self._aliased[alias] = (*self._aliased.get(alias, ()), spec.name)
            bases.add(base)
            aliases.update(spec.aliases)
        self._settle(bases, aliases)

    def _settle(self, bases: set[str], new_aliases: set[str]) -> None:
        """Give the names of these groups, and the owners of these aliases, their final spec."""
        identifiers: dict[str, str] = {}
        for base in bases:
            identifiers |= settle_identifiers(base, self._groups)
        for name in identifiers.keys() & self._tools.keys():
            del self._names[self._tools[name].spec.python_name]
        self._names.update({identifier: name for name, identifier in identifiers.items()})
        changed_aliases = new_aliases | (self._aliased.keys() & identifiers.values())
        changed = [*identifiers, *(name for alias in changed_aliases for name in self._aliased[alias])]
        # A tool new here takes its place in the order given, not the order of the sets above.
        for name in [
            *(name for name in changed if name in self._tools),
            *islice(self._originals, len(self._tools), None),
        ]:
            original = self._originals[name]
            identifier = identifiers.get(name) or self._tools[name].spec.python_name
            aliases = tuple(alias for alias in original.spec.aliases if self._is_clear(alias))
            is_same = (identifier, aliases) == (original.spec.python_name, original.spec.aliases)
            spec = original.spec if is_same else replace(original.spec, python_name=identifier, aliases=aliases)
            self._tools[name] = original if is_same else replace(original, spec=spec)

    def _is_clear(self, alias: str) -> bool:
        """Whether an alias means one tool only and hides no identifier."""
        return len(self._aliased.get(alias, ())) == 1 and alias not in self._names


def _same_places(name: str, other: str) -> int:
    """Number of equal letters at equal positions, counted from the start and from the end."""
    count: int = sum(map(eq, name, other)) + sum(map(eq, reversed(name), reversed(other)))
    return count
