"""The routes of files: put them into a session, list, fetch and delete them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import BinaryIO, Final
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException

from toolfold.doors.http import wire
from toolfold.doors.http.body import checked, expect
from toolfold.doors.http.files import SessionFiles, id_of, new_session
from toolfold.doors.http.gate import Gate
from toolfold.doors.http.metrics import Metrics
from toolfold.doors.http.refusals import Refusal
from toolfold.doors.http.responses import json_response
from toolfold.sessions.stores import SessionFile

_MAX_UPLOADED_FILES: Final = 100
_PIECE_BYTES: Final = 128 * 1024


class FileRoutes:
    """What clients do with the files of their sessions.

    Args:
        files: Of all tenants.
        gate: Counts uploads as starts.
        metrics: Counts their bytes.
        tenant: Whose request it is, from its headers.
    """

    def __init__(
        self, files: SessionFiles, *, gate: Gate, metrics: Metrics, tenant: Callable[[Request], Awaitable[str]]
    ) -> None:
        self._files = files
        self._gate = gate
        self._metrics = metrics
        self._tenant = tenant

    async def upload(self, request: Request) -> Response:
        """Put files into a session: a new one, or that of the field `session_id`."""
        session, files = await self._uploaded(request)
        named = [{"fileId": id_of(session, name), "filename": name} for name in files]
        body = {"message": "success", "session_id": session, "storage_session_id": session, "files": named}
        return json_response(200, body)

    async def upload_batch(self, request: Request) -> Response:
        """The same, with a status for each file."""
        session, files = await self._uploaded(request)
        named = [{"status": "success", "fileId": id_of(session, name), "filename": name} for name in files]
        counts = {"succeeded": len(named), "failed": 0}
        body = {"message": "success", "session_id": session, "storage_session_id": session, "files": named}
        return json_response(200, {**body, **counts})

    async def list_files(self, request: Request, session: str) -> Response:
        """The files of a session; an unknown session has none."""
        tenant = await self._tenant(request)
        return json_response(200, await asyncio.to_thread(self._files.listing, tenant, session))

    async def download(self, request: Request, session: str, file: str) -> Response:
        """One file, as it is."""
        tenant = await self._tenant(request)
        found = await asyncio.to_thread(self._files.find, tenant, session, file)
        opened, size = await asyncio.to_thread(_opened, found)
        # Always as an attachment, never guessed: a program may have written a page with a script in it.
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.name, safe='')}",
            "X-Content-Type-Options": "nosniff",
            "Content-Length": str(size),
        }
        return StreamingResponse(_pieces(opened), media_type=found.mime, headers=headers)

    async def file_facts(self, request: Request, session: str, file: str) -> Response:
        """Whether a file is still there, with its size and the time of its last change."""
        tenant = await self._tenant(request)
        return json_response(200, await asyncio.to_thread(self._files.facts, tenant, session, file))

    async def delete_file(self, request: Request, session: str, file: str) -> Response:
        """Forget one file."""
        tenant = await self._tenant(request)
        await asyncio.to_thread(self._files.remove, tenant, session, file)
        return json_response(200, {"message": "success"})

    async def _uploaded(self, request: Request) -> tuple[str, list[str]]:
        tenant = await self._tenant(request)
        expect(request, "multipart/form-data")
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
        wanted = {"code": "", "session_id": texts["session_id"]} if "session_id" in texts else {"code": ""}
        session = checked(wanted, wire.ExecuteRequest).session_id or new_session()
        files = await asyncio.to_thread(self._files.add, tenant, session, uploads)
        self._metrics.add("uploaded_bytes", sum(file.size for file in files))
        return session, [file.name for file in files]


def _opened(kept: SessionFile) -> tuple[BinaryIO, int]:
    try:
        opened = kept.open()
    except FileNotFoundError as error:
        raise Refusal(404, f"the file {kept.name[:80]!r} has just changed; ask for it again") from error
    return opened, opened.seek(0, os.SEEK_END)


async def _pieces(opened: BinaryIO) -> AsyncIterator[bytes]:
    """A file bit by bit: a client that does not read holds one of them, not all."""
    with opened:
        opened.seek(0)
        while piece := await asyncio.to_thread(opened.read, _PIECE_BYTES):
            yield piece
