"""Where a text of another client's file holds a secret, so that it is not copied into one more file. Pure.

A secret is told by the name that it stands under, by its place in a URL, or by its looks. In doubt a text is
one: whoever is asked for a variable too many loses a minute, a token that was copied is lost for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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
_KNOWN: Final = re.compile(
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
    """What stands under this name is not for everyone."""
    return _NAME.search(name) is not None and _OF_A_PLACE.search(name) is None


def secrets_in(text: str, name: str = "") -> list[Secret]:
    """The secrets in a text that stands under a name, from left to right; no two overlap."""
    if name and is_secret_name(name) and not _REFERENCE.search(text):
        return [_without_scheme(text, Secret(0, len(text), name))] if text.strip() else []
    taken = [match.span() for match in _REFERENCE.finditer(text)]
    found: list[Secret] = []
    for secret in _candidates(text):
        if all(secret.end <= start or end <= secret.start for start, end in taken):
            found.append(secret)
            taken.append((secret.start, secret.end))
    return sorted(found, key=lambda one: one.start)


def _candidates(text: str) -> Iterator[Secret]:
    """The surest first."""
    for match in _PASSWORD.finditer(text):
        yield Secret(*match.span("value"), "password")
    for pattern in _PAIRS:
        for match in pattern.finditer(text):
            if is_secret_name(match["name"]):
                yield _without_scheme(text, Secret(*match.span("value"), match["name"]))
    for match in _KNOWN.finditer(text):
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
    """Whether the word around a place is a path of this machine."""
    begin = max((text.rfind(sign, 0, at) for sign in " \t\n=,\"'"), default=-1) + 1
    return re.match(r"[/~.]|[A-Za-z]:[\\/]|file:", text[begin:]) is not None
