"""Writer of `toolfold.yaml` entries for servers of other clients' files, without their secrets.

Every secret becomes a variable with the server's name in it, so that two servers never share one by accident.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from toolfold.config.import_clients import (
    OF_STDIO,
    OF_URL,
    VARIABLE,
    ClientServer,
    check_server,
    entry_of,
    one_line,
    variable_of,
)

_ANY_URL: Final = "http://localhost/"
_REFERENCE_OWNER: Final = "a reference"


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """Server entry, ready to be written."""

    found: ClientServer
    # Any: each key has its own type.
    entry: dict[str, Any]
    variables: dict[str, str] = field(default_factory=dict)
    """The variables that it needs, and where in the client's file the value or the reference stands."""
    replaced: tuple[str, ...] = ()
    """Those of them that stand for a secret whose value was in the client's file."""


class ConfigWriter:
    """Makes entries for one `toolfold.yaml`; knows the variables that its servers refer to."""

    def __init__(self, found: Iterable[ClientServer]) -> None:
        texts = (json.dumps([server.entry.get(key) for key in (*OF_STDIO, *OF_URL)]) for server in found)
        references = {
            variable_of(match) for text in texts for match in VARIABLE.finditer(text) if match["kind"] != "input"
        }
        # The server and the secret behind each variable; the secret only tells two apart.
        self._owners: dict[str, tuple[str, str]] = dict.fromkeys(references, ("", _REFERENCE_OWNER))

    def write(self, server: ClientServer) -> ServerEntry:
        """Write one entry; raises `UsageError` if it describes no usable server."""
        variables: dict[str, str] = {}
        replaced: dict[str, None] = {}
        before = ""

        def change(text: str, key: str, name: str) -> str:
            nonlocal before
            flag, before = before, text
            return self._text(
                server, text, _EntryLocation(key, name, flag if key == "args" else ""), variables, replaced
            )

        entry = entry_of(server, change)
        # An address that is not known yet cannot be wrong yet.
        check_server({**entry, "url": _ANY_URL} if "${" in str(entry.get("url", "")) else entry)
        return ServerEntry(server, entry, variables, tuple(replaced))

    def _text(
        self, server: ClientServer, text: str, location: _EntryLocation, variables: dict[str, str],
        replaced: dict[str, None],
    ) -> str:  # fmt: skip
        """Without its secrets, and with the references that `toolfold.yaml` knows."""
        parts, at = [], 0
        for secret in secrets_in(text, location.secret_name(text)):
            name = self._name(server.name, location.hint(secret.name), text[secret.start : secret.end])
            variables[name] = location.describe(server)
            replaced[name] = None
            parts += [self._references(server, text[at : secret.start], location, variables), f"${{{name}}}"]
            at = secret.end
        return "".join([*parts, self._references(server, text[at:], location, variables)])

    def _references(self, server: ClientServer, text: str, location: _EntryLocation, variables: dict[str, str]) -> str:
        """Other dollar signs are doubled."""

        def refer(match: re.Match[str]) -> str:
            place = server.client_variable(match["name"]) if match["kind"] is None else None
            if place is not None:
                return "${HOME}" if match["name"] == "userHome" else place.replace("$", "$$")
            name, default = variable_of(match), match["default"]
            if match["kind"] == "input":
                # VS Code keeps the answer to itself; two files may ask for two things under one id.
                name = self._name(server.name, name, match[0])
            if default and not is_secret_name(name) and not secrets_in(default):
                return f"${{{name}:-{default}}}"
            variables[name] = location.describe(server)
            return f"${{{name}}}"

        parts, at = [], 0
        for match in VARIABLE.finditer(text):
            parts += [text[at : match.start()].replace("$", "$$"), refer(match)]
            at = match.end()
        return "".join([*parts, text[at:].replace("$", "$$")])

    def _name(self, server: str, hint: str, value: str) -> str:
        prefix, words = _as_variable(server), _as_variable(hint)
        base = words if words == prefix or words.startswith(f"{prefix}_") else f"{prefix}_{words}"
        base = base if base[:1].isalpha() else f"MCP_{base}"
        name, number = base, 1
        while self._owners.setdefault(name, (server, value)) != (server, value):
            number += 1
            name = f"{base}_{number}"
        return name


@dataclass(frozen=True, slots=True)
class _EntryLocation:
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

    def hint(self, label: str) -> str:
        """Suffix of the variable's name, after the name of its server."""
        if self.key in ("env", "headers") and (not label or label == "password"):
            return f"{self.name}_{label}" if label else self.name
        return label or (f"arg_{self.name}" if self.key == "args" else self.key)

    def describe(self, server: ClientServer) -> str:
        if self.key == "args":
            return f"{server.place}.args[{int(self.name) - 1}]"
        return f"{server.place}.{self.key}.{one_line(self.name)}" if self.name else f"{server.place}.{self.key}"


def _as_variable(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()


# ----------------------------------------------------------------------------------------------------
# Where a text of another client's file holds a secret, so that it is not copied into one more file. Pure.
#
# A secret is told by the name that it stands under, by its place in a URL, or by its looks. In doubt a text is
# one: whoever is asked for a variable too many loses a minute, a token that was copied is lost for good.

_NAME: Final = re.compile(
    r"token(?!s|iz)|secret|passw|passphrase|pwd|credential|authori[sz]ation|cookie|api.?key|access.?key|private|bearer"
    r"|(?<![a-z])(?:key|auth|pat|pass|dsn|jwt|session|sid|signature|license|webhook)(?![a-z])",
    re.IGNORECASE,
)
_OF_A_PLACE: Final = re.compile(r"(?:file|path|dir|folder)$", re.IGNORECASE)
"""`TOKEN_FILE` says where a token is."""
_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")
_PAIRS: Final = (
    # --api-key=x, KEY=x, ?key=x&..., Password=x;
    # The end of a longer name tells as much, and each letter is not the start of a search to the end.
    re.compile(r"(?P<name>[A-Za-z_][\w.-]{0,100})=(?P<value>[^\s&;\"',]+)"),
    # JSON in a text: "Authorization": "Bearer x"
    re.compile(r"\"(?P<name>[^\"\\]+)\"\s*:\s*\"(?P<value>(?:\\.|[^\"\\])+)\""),
    # Authorization: Bearer x
    re.compile(r"^(?P<name>[A-Za-z][\w-]*):\s*(?P<value>.+)$", re.DOTALL),
)
# The password may itself hold `@` and `/`; a number and a slash are a port and a path.
_PASSWORD: Final = re.compile(r"://[^\s/@:]*:(?!\d{1,5}(?:/|$))(?P<value>\S+)@")
_TOKEN_FORMATS: Final = re.compile(
    r"(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[a-z]|hf|npm|ntn|secret|lin_api|figd|dop_v1|shpat|AKIA|ASIA|AIza"
    r"|ya29|eyJ|SG|ATATT)[-_.]?[A-Za-z0-9][A-Za-z0-9_\-.=]{10,}"
)
_WORD: Final = re.compile(r"[A-Za-z0-9_\-+.~%]{12,}=*")
_PIECE: Final = re.compile(r"[A-Za-z0-9]{12,}")
_BEFORE_DIGEST: Final = ("sha256:", "sha512:", "@", "#")
"""What stands before the version of an image or a package."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A part of a text."""

    start: int
    end: int
    name: str
    """What it is called there, such as `api-key`; empty where nothing says so."""


def is_secret_name(name: str) -> bool:
    return _NAME.search(name) is not None and _OF_A_PLACE.search(name) is None


def secrets_in(text: str, name: str = "") -> list[Secret]:
    """The secrets in a text that stands under a name, from left to right; no two overlap."""
    if name and is_secret_name(name) and not _REFERENCE.search(text):
        return [_without_scheme(text, Secret(0, len(text), name))] if text.strip() else []
    used_spans = [match.span() for match in _REFERENCE.finditer(text)]
    secrets: list[Secret] = []
    for secret in _candidates(text):
        if all(secret.end <= start or end <= secret.start for start, end in used_spans):
            secrets.append(secret)
            used_spans.append((secret.start, secret.end))
    return sorted(secrets, key=lambda secret: secret.start)


def _candidates(text: str) -> Iterator[Secret]:
    """Possible secrets, the surest first."""
    for match in _PASSWORD.finditer(text):
        yield Secret(*match.span("value"), "password")
    for pattern in _PAIRS:
        for match in pattern.finditer(text):
            if is_secret_name(match["name"]):
                yield _without_scheme(text, Secret(*match.span("value"), match["name"]))
    for match in _TOKEN_FORMATS.finditer(text):
        if not text[match.start() - 1 : match.start()].isalnum() and _is_mixed(match[0]):
            yield Secret(*match.span(), "")
    for match in _WORD.finditer(text):
        is_random = any(_is_mixed(piece) for piece in _PIECE.findall(match[0]))
        if is_random and not text[: match.start()].endswith(_BEFORE_DIGEST) and not _is_path(text, match.start()):
            yield Secret(*match.span(), "")


def _without_scheme(text: str, secret: Secret) -> Secret:
    scheme = _SCHEME.match(text, secret.start, secret.end)
    return secret if scheme is None or scheme.end() == secret.end else Secret(scheme.end(), secret.end, secret.name)


def _is_mixed(piece: str) -> bool:
    """Letters and digits in turns, as nobody writes them."""
    return len(re.findall(r"\d", piece)) > 1 and len(re.findall(r"[A-Za-z]", piece)) > 1


def _is_path(text: str, at: int) -> bool:
    begin = max((text.rfind(sign, 0, at) for sign in " \t\n=,\"'"), default=-1) + 1
    return re.match(r"[/~.]|[A-Za-z]:[\\/]|file:", text[begin:]) is not None
