"""Files of sessions, as clients name them: by id in a session. No name from outside becomes a path."""

from __future__ import annotations

import hashlib
import mimetypes
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

from toolfold.doors.http.refusals import Refusal
from toolfold.doors.http.wire import FileReference
from toolfold.models import File
from toolfold.sessions import Sessions
from toolfold.sessions.stores import SessionFile

_ID_CHARACTERS: Final = 21
"""As long as the ids that LibreChat's own servers give."""
_LONGEST_NAME_BYTES: Final = 200


class SessionFiles:
    """The files of every tenant's sessions."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def add(self, tenant: str, session: str, uploads: Iterable[tuple[str, bytes]]) -> list[File]:
        """Keep uploads under names of their own, in order."""
        files: dict[str, File] = {}
        for given_name, data in uploads:
            name = unused(safe_name(given_name), files)
            files[name] = File(name=name, data=data, mime=mimetypes.guess_type(name)[0] or "application/octet-stream")
        self._sessions.put(key_of(tenant, session), files.values())
        return list(files.values())

    def find(self, tenant: str, session: str, file_id: str) -> SessionFile:
        """By id; an ending behind it does not matter.

        Raises:
            Refusal: 404.
        """
        wanted = file_id.partition(".")[0]
        for file in self._sessions.listed(key_of(tenant, session)):
            if wanted == id_of(session, file.name) or file_id == file.name:
                return file
        raise Refusal(404, f"no file {file_id[:80]!r} in this session; it may have expired, upload it again")

    def remove(self, tenant: str, session: str, file_id: str) -> None:
        """Forget a file."""
        self._sessions.remove(key_of(tenant, session), self.find(tenant, session, file_id))

    def listing(self, tenant: str, session: str) -> list[dict[str, Any]]:
        """What `GET /files/{session}` shows; both old and new clients find their fields."""
        key = key_of(tenant, session)
        changed = self._changed_at(key)
        return [{**described(session, file), **changed} for file in self._sessions.listed(key)]

    def facts(self, tenant: str, session: str, file_id: str) -> dict[str, Any]:
        """One line of the listing."""
        file = self.find(tenant, session, file_id)
        return {**described(session, file), **self._changed_at(key_of(tenant, session))}

    def given(self, tenant: str, session: str, references: Sequence[FileReference]) -> list[File]:
        """The files that a request refers to, under names that do not collide; the session's own are there anyway."""
        files: dict[str, File] = {}
        for reference in references:
            source = reference.session_id or session
            file = self.find(tenant, source, reference.id)
            if source == session and reference.name in (None, file.name):
                continue
            name = unused(safe_name(reference.name or file.name), files)
            with file.open() as opened:
                files[name] = File(name=name, data=opened.read(), mime=file.mime)
        return list(files.values())

    def _changed_at(self, key: str) -> dict[str, str]:
        return {"lastModified": datetime.fromtimestamp(self._sessions.saved_at(key), UTC).isoformat()}


def described(session: str, file: SessionFile) -> dict[str, Any]:
    """A file with everything that a client may look for."""
    file_id = id_of(session, file.name)
    return {
        **reference_to(session, file),
        "name": f"{session}/{file_id}{PurePosixPath(file.name).suffix}",
        "filename": file.name,
        "size": file.size,
        "contentType": file.mime,
        "metadata": {"original-filename": file.name},
    }


def reference_to(session: str, file: File | SessionFile) -> dict[str, Any]:
    """How a response names a file: 3.0.x's `session_id`, 3.9.x's `storage_session_id`."""
    return {
        "id": id_of(session, file.name),
        "name": file.name,
        "session_id": session,
        "storage_session_id": session,
    }


def key_of(tenant: str, session: str) -> str:
    """A session's name in the store: two tenants' sessions of one id are two."""
    return f"{tenant}/{session}"


def new_session() -> str:
    """An id nobody can guess."""
    return secrets.token_hex(_ID_CHARACTERS)[:_ID_CHARACTERS]


def id_of(session: str, name: str) -> str:
    """A file's id: the same as long as its name is."""
    return hashlib.sha256(f"{session}/{name}".encode()).hexdigest()[:_ID_CHARACTERS]


def safe_name(name: str) -> str:
    """The last part of a name, without signs that no file name can hold, and not too long for one."""
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(sign for sign in last if sign.isprintable()).encode("utf-8", "ignore").decode()
    kept = kept.strip() if kept.strip() not in (".", "..") else ""
    if len(kept.encode()) > _LONGEST_NAME_BYTES:
        suffix = PurePosixPath(kept).suffix.encode()[:20].decode("utf-8", "ignore")
        kept = kept.encode()[: _LONGEST_NAME_BYTES - 20].decode("utf-8", "ignore") + suffix
    return kept or "file"


def unused(name: str, taken: Iterable[str]) -> str:
    """`data.csv`, `data_1.csv`, ..."""
    path, others = PurePosixPath(name), set(taken)
    number = 1
    while name in others:
        name = f"{path.stem}_{number}{path.suffix}"
        number += 1
    return name
