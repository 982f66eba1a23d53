"""Files that programs made, kept for a while so that a client can read them; bounded in number and bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from toolfold.models import MIB, File

SCHEME: Final = "toolfold"
_MOST_BYTES: Final = 64 * MIB
"""Of all files of one client."""
_MOST_FILES: Final = 200
"""Of one client."""
_MOST_CLIENTS: Final = 100


@dataclass(frozen=True, slots=True)
class Kept:
    """One file under its address."""

    uri: str
    file: File


class Files:
    """The produced files of all clients; each client sees its own. The oldest go first."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, OrderedDict[str, Kept]] = OrderedDict()

    def add(self, client: str, execution_id: str, files: Iterable[File]) -> tuple[Kept, ...]:
        """Keep what an execution made; gives those that fit."""
        kept = self._clients.setdefault(client, OrderedDict())
        self._clients.move_to_end(client)
        added = []
        for file in files:
            one = Kept(f"{SCHEME}://files/{execution_id}/{quote(file.name)}", file)
            kept[one.uri] = one
            added.append(one)
        while len(kept) > _MOST_FILES or sum(one.file.size for one in kept.values()) > _MOST_BYTES:
            kept.popitem(last=False)
        while len(self._clients) > _MOST_CLIENTS:
            self._clients.popitem(last=False)
        return tuple(one for one in added if one.uri in kept)

    def get(self, client: str, uri: str) -> File | None:
        """The file at an address, if this client has one there."""
        kept = self._clients.get(client)
        one = None if kept is None else kept.get(uri)
        return None if one is None else one.file

    def list(self, client: str) -> tuple[Kept, ...]:
        """All of a client, oldest first."""
        kept = self._clients.get(client)
        return () if kept is None else tuple(kept.values())
