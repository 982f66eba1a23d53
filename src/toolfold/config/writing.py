"""From the entry of another client's file to one of `toolfold.yaml`: the same server, without its secrets.

Every secret becomes a variable with the server's name in it, so that two servers never share one by accident.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from toolfold.config.importing import OF_STDIO, OF_URL, VARIABLE, Found, checked_server, entry_of, one_line, variable_of
from toolfold.config.secrets import is_secret_name, secrets_in

_ANY_URL: Final = "http://localhost/"
_SOMEONE: Final = "a reference"


@dataclass(frozen=True, slots=True)
class Written:
    """One server, ready to be written."""

    found: Found
    # Any: each key has its own type.
    entry: dict[str, Any]
    variables: dict[str, str] = field(default_factory=dict)
    """The variables that it needs, and where in the client's file the value or the reference stands."""
    replaced: tuple[str, ...] = ()
    """Those of them that stand for a secret whose value was in the client's file."""


class Writer:
    """Makes entries for one `toolfold.yaml`; knows which variables are taken.

    Args:
        found: All servers that will be written: the variables that they refer to keep their meaning.
    """

    def __init__(self, found: Iterable[Found]) -> None:
        texts = (json.dumps([one.entry.get(key) for key in (*OF_STDIO, *OF_URL)]) for one in found)
        named = {variable_of(match) for text in texts for match in VARIABLE.finditer(text) if match["kind"] != "input"}
        # The server and the secret behind each variable; the secret only tells two apart.
        self._taken: dict[str, tuple[str, str]] = dict.fromkeys(named, ("", _SOMEONE))

    def write(self, found: Found) -> Written:
        """One entry.

        Raises:
            UsageError: no server can be made of it.
        """
        variables: dict[str, str] = {}
        replaced: dict[str, None] = {}
        before = ""

        def change(text: str, key: str, name: str) -> str:
            nonlocal before
            flag, before = before, text
            return self._text(found, text, _Where(key, name, flag if key == "args" else ""), variables, replaced)

        entry = entry_of(found, change)
        # An address that is not known yet cannot be wrong yet.
        checked_server({**entry, "url": _ANY_URL} if "${" in str(entry.get("url", "")) else entry)
        return Written(found, entry, variables, tuple(replaced))

    def _text(
        self, found: Found, text: str, where: _Where, variables: dict[str, str], replaced: dict[str, None]
    ) -> str:
        """Without its secrets, and with the references that `toolfold.yaml` knows."""
        parts, at = [], 0
        for secret in secrets_in(text, where.secret_name(text)):
            name = self._name(found.name, where.hint(secret.name), text[secret.start : secret.end])
            variables[name] = where.shown(found)
            replaced[name] = None
            parts += [self._references(found, text[at : secret.start], where, variables), f"${{{name}}}"]
            at = secret.end
        return "".join([*parts, self._references(found, text[at:], where, variables)])

    def _references(self, found: Found, text: str, where: _Where, variables: dict[str, str]) -> str:
        """Other dollar signs are doubled."""

        def refer(match: re.Match[str]) -> str:
            place = found.place_for(match["name"]) if match["kind"] is None else None
            if place is not None:
                return "${HOME}" if match["name"] == "userHome" else place.replace("$", "$$")
            name, default = variable_of(match), match["default"]
            if match["kind"] == "input":
                # VS Code keeps the answer to itself; two files may ask for two things under one id.
                name = self._name(found.name, name, match[0])
            if default and not is_secret_name(name) and not secrets_in(default):
                return f"${{{name}:-{default}}}"
            variables[name] = where.shown(found)
            return f"${{{name}}}"

        parts, at = [], 0
        for match in VARIABLE.finditer(text):
            parts += [text[at : match.start()].replace("$", "$$"), refer(match)]
            at = match.end()
        return "".join([*parts, text[at:].replace("$", "$$")])

    def _name(self, server: str, hint: str, value: str) -> str:
        """A variable for one secret of one server."""
        prefix, words = _as_variable(server), _as_variable(hint)
        base = words if words == prefix or words.startswith(f"{prefix}_") else f"{prefix}_{words}"
        base = base if base[:1].isalpha() else f"MCP_{base}"
        name, number = base, 1
        while self._taken.setdefault(name, (server, value)) != (server, value):
            number += 1
            name = f"{base}_{number}"
        return name


@dataclass(frozen=True, slots=True)
class _Where:
    """Where a text stands in an entry."""

    key: str
    name: str
    """The variable or the header; of an argument, its number from 1."""
    flag: str
    """The argument before it."""

    def secret_name(self, text: str) -> str:
        """The name that tells whether the whole text is a secret; empty for none."""
        if self.key in ("env", "headers"):
            return self.name
        is_value = self.flag.startswith("-") and "=" not in self.flag and not text.startswith("-")
        return self.flag.lstrip("-") if is_value and is_secret_name(self.flag) else ""

    def hint(self, said: str) -> str:
        """What the variable is called after, besides its server."""
        if self.key in ("env", "headers") and (not said or said == "password"):
            return f"{self.name}_{said}" if said else self.name
        return said or (f"arg_{self.name}" if self.key == "args" else self.key)

    def shown(self, found: Found) -> str:
        """For a person who looks the value up."""
        if self.key == "args":
            return f"{found.place}.args[{int(self.name) - 1}]"
        return f"{found.place}.{self.key}.{one_line(self.name)}" if self.name else f"{found.place}.{self.key}"


def _as_variable(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()
