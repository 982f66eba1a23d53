"""`libraries` in `toolfold.yaml`: packages for programs."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

from toolfold.config.section import Section
from toolfold.config.units import must_be

# Names and versions only: an address or a path would bring code that no lock can vouch for, and `-` is an option.
# No line breaks: what follows one may be an option again.
_CLAUSE: Final = r"(?:==|!=|<=|>=|~=|<|>)[ \t]*[A-Za-z0-9.*+!_-]+[ \t]*"
_PACKAGE: Final = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]+\])?[ \t]*"
    rf"(?:{_CLAUSE}(?:,[ \t]*{_CLAUSE})*)?"
)


def _is_package(text: str) -> str:
    if not _PACKAGE.fullmatch(text):
        raise must_be("a package name with an optional version, such as networkx==3.4.2")
    return text


def _is_module(text: str) -> str:
    if not all(part.isidentifier() for part in text.split(".")):
        raise must_be("the name of a module, such as networkx")
    return text


def _is_set_name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", text) or text in ("bare", "data", "science", "main"):
        raise must_be("lower-case letters, digits and underscores, and not bare, data, science or main")
    return text


Package = Annotated[str, AfterValidator(_is_package)]
Module = Annotated[str, AfterValidator(_is_module)]
SetName = Annotated[str, AfterValidator(_is_set_name)]


class LibrarySetConfig(Section):
    """Packages that are installed for programs by `toolfold libraries sync`."""

    packages: tuple[Package, ...] = ()
    """Packages from the package index, optionally with a version: `networkx==3.4.2`."""
    preload: tuple[Module, ...] = ()
    """Modules to import once for all programs of the set, outside the locked sandbox. List only modules that you
    trust."""
