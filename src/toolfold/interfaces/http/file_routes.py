"""Files over HTTP: upload, list, download, inspect and delete; names and metadata as clients expect them."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException

from toolfold.execution.recorded_history import RecordedExecution
from toolfold.interfaces.http import outcome_bodies, request_models
from toolfold.interfaces.http.body_reader import require_media_type, validate_body
from toolfold.interfaces.http.outcome_bodies import ApiResponse, Refusal
from toolfold.interfaces.http.request_models import FileReference
from toolfold.interfaces.http.responses import json_response
from toolfold.interfaces.http.settings import HttpContext
from toolfold.models import File, Json, Outcome
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
        """Store uploads under unique names, in order."""
        files: dict[str, File] = {}
        for upload_name, data in uploads:
            name = unique_name(safe_name(upload_name), files)
            files[name] = File(name=name, data=data, mime=mimetypes.guess_type(name)[0] or "application/octet-stream")
        self._sessions.put(key_of(tenant, session), files.values())
        return list(files.values())

    def find(self, tenant: str, session: str, file_id: str) -> SessionFile:
        """By id, else `Refusal` 404; an ending behind it does not matter."""
        requested_id = file_id.partition(".")[0]
        for file in self._sessions.listed(key_of(tenant, session)):
            if requested_id == id_of(session, file.name) or file_id == file.name:
                return file
        raise Refusal(404, f"no file {file_id[:80]!r} in this session; it may have expired, upload it again")

    def remove(self, tenant: str, session: str, file_id: str) -> None:
        self._sessions.remove(key_of(tenant, session), self.find(tenant, session, file_id))

    def listing(self, tenant: str, session: str) -> list[dict[str, Any]]:
        """Files of a session, with the fields of old and new clients."""
        key = key_of(tenant, session)
        changed = self._changed_at(key)
        return [{**describe_file(session, file), **changed} for file in self._sessions.listed(key)]

    def facts(self, tenant: str, session: str, file_id: str) -> dict[str, Any]:
        file = self.find(tenant, session, file_id)
        return {**describe_file(session, file), **self._changed_at(key_of(tenant, session))}

    def read_references(self, tenant: str, session: str, references: Sequence[FileReference]) -> list[File]:
        """Files that a request refers to, under unique names; those of its own session are there anyway."""
        files: dict[str, File] = {}
        for reference in references:
            source = reference.session_id or session
            file = self.find(tenant, source, reference.id)
            if source == session and reference.name in (None, file.name):
                continue
            name = unique_name(safe_name(reference.name or file.name), files)
            with file.open() as stream:
                files[name] = File(name=name, data=stream.read(), mime=file.mime)
        return list(files.values())

    def _changed_at(self, key: str) -> dict[str, str]:
        return {"lastModified": datetime.fromtimestamp(self._sessions.saved_at(key), UTC).isoformat()}


def describe_file(session: str, file: SessionFile) -> dict[str, Any]:
    file_id = id_of(session, file.name)
    return {
        **file_reference(session, file), "name": f"{session}/{file_id}{PurePosixPath(file.name).suffix}",
        "filename": file.name, "size": file.size, "contentType": file.mime,
        "metadata": {"original-filename": file.name},
    }  # fmt: skip


def file_reference(session: str, file: File | SessionFile) -> dict[str, Any]:
    """How a response names a file: 3.0.x's `session_id`, 3.9.x's `storage_session_id`."""
    return {"id": id_of(session, file.name), "name": file.name, "session_id": session, "storage_session_id": session}


def key_of(tenant: str, session: str) -> str:
    """A session's name in the store: two tenants' sessions of one id are two."""
    return f"{tenant}/{session}"


def new_session() -> str:
    return secrets.token_hex(_ID_CHARACTERS)[:_ID_CHARACTERS]


def id_of(session: str, name: str) -> str:
    """A file's id: the same as long as its name is."""
    return hashlib.sha256(f"{session}/{name}".encode()).hexdigest()[:_ID_CHARACTERS]


def safe_name(name: str) -> str:
    """The last part of a name, without signs that no file name can hold, and not too long for one."""
    last = name.replace("\\", "/").rpartition("/")[2]
    file_name = "".join(sign for sign in last if sign.isprintable()).encode("utf-8", "ignore").decode()
    file_name = file_name.strip() if file_name.strip() not in (".", "..") else ""
    if len(file_name.encode()) > _LONGEST_NAME_BYTES:
        suffix = PurePosixPath(file_name).suffix.encode()[:20].decode("utf-8", "ignore")
        file_name = file_name.encode()[: _LONGEST_NAME_BYTES - 20].decode("utf-8", "ignore") + suffix
    return file_name or "file"


def unique_name(name: str, used_names: Iterable[str]) -> str:
    path, name_set = PurePosixPath(name), set(used_names)
    number = 1
    while name in name_set:
        name = f"{path.stem}_{number}{path.suffix}"
        number += 1
    return name


def session_of(recorded: RecordedExecution) -> str:
    """The session of an execution, as its client named it."""
    start_record = recorded.start_record
    return start_record.session.removeprefix(key_of(start_record.tenant, ""))


def recorded_response(outcome: Outcome, session: str) -> ApiResponse:
    files = [file_reference(session, file) for file in outcome.files]
    return outcome_bodies.outcome_response(outcome, session=session, files=files)


# ----------------------------------------------------------------------------------------------------
# The routes of files: put them into a session, list, fetch and delete them.

_MAX_UPLOADED_FILES: Final = 100
_PIECE_BYTES: Final = 128 * 1024


class FileRoutes:
    """Routes for the files of sessions."""

    def __init__(self, context: HttpContext) -> None:
        self._files = SessionFiles(context.runtime.sessions)
        self._gate = context.gate
        self._metrics = context.metrics
        self._tenant = context.reader.tenant

    async def upload(self, request: Request) -> Response:
        """Put files into a session: a new one, or that of the field `session_id`."""
        return json_response(200, await self._save_uploads(request))

    async def upload_batch(self, request: Request) -> Response:
        """The same, with a status for each file."""
        body = await self._save_uploads(request)
        entries = [{"status": "success", **entry} for entry in body["files"]]
        return json_response(200, {**body, "files": entries, "succeeded": len(entries), "failed": 0})

    async def list_files(self, request: Request, session: str) -> Response:
        """The files of a session; an unknown session has none."""
        tenant = await self._tenant(request)
        return json_response(200, await asyncio.to_thread(self._files.listing, tenant, session))

    async def download(self, request: Request, session: str, file: str) -> Response:
        """Download one file."""
        tenant = await self._tenant(request)
        session_file = await asyncio.to_thread(self._files.find, tenant, session, file)
        stream, size = await asyncio.to_thread(_open_file, session_file)
        # Always as an attachment, never guessed: a program may have written a page with a script in it.
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(session_file.name, safe='')}",
            "X-Content-Type-Options": "nosniff",
            "Content-Length": str(size),
        }
        return StreamingResponse(_pieces(stream), media_type=session_file.mime, headers=headers)

    async def file_facts(self, request: Request, session: str, file: str) -> Response:
        """Whether a file is still there, with its size and the time of its last change."""
        tenant = await self._tenant(request)
        return json_response(200, await asyncio.to_thread(self._files.facts, tenant, session, file))

    async def delete_file(self, request: Request, session: str, file: str) -> Response:
        """Forget one file."""
        tenant = await self._tenant(request)
        await asyncio.to_thread(self._files.remove, tenant, session, file)
        return json_response(200, {"message": "success"})

    async def _save_uploads(self, request: Request) -> dict[str, Json]:
        tenant = await self._tenant(request)
        require_media_type(request, "multipart/form-data")
        self._gate.start(tenant)
        try:
            async with request.form(max_files=_MAX_UPLOADED_FILES, max_fields=50) as form:
                texts = {key: value for key, value in form.multi_items() if isinstance(value, str)}
                parts = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
                uploads = [(part.filename or "file", await part.read()) for part in parts]
        except MultiPartException as error:
            raise Refusal(400, "the form cannot be read; send multipart/form-data with a file") from error
        if not uploads:
            raise Refusal(400, "the form has no file; send one in the field 'file'")
        fields = {"code": "", "session_id": texts["session_id"]} if "session_id" in texts else {"code": ""}
        session = validate_body(fields, request_models.ExecuteRequest).session_id or new_session()
        files = await asyncio.to_thread(self._files.add, tenant, session, uploads)
        self._metrics.add("uploaded_bytes", sum(file.size for file in files))
        entries = [{"fileId": id_of(session, file.name), "filename": file.name} for file in files]
        return {"message": "success", "session_id": session, "storage_session_id": session, "files": entries}


def _open_file(session_file: SessionFile) -> tuple[BinaryIO, int]:
    try:
        stream = session_file.open()
    except FileNotFoundError as error:
        raise Refusal(404, f"the file {session_file.name[:80]!r} has just changed; ask for it again") from error
    return stream, stream.seek(0, os.SEEK_END)


async def _pieces(stream: BinaryIO) -> AsyncIterator[bytes]:
    """A file in pieces, of which a slow client holds one."""
    with stream:
        stream.seek(0)
        while piece := await asyncio.to_thread(stream.read, _PIECE_BYTES):
            yield piece
