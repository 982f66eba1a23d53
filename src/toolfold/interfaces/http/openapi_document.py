"""OpenAPI document of the HTTP interface: response models, statuses, and the pages that show it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from fastapi import APIRouter, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema

from toolfold.interfaces.http import request_models

RouteDescription: TypeAlias = tuple[str, str, str, Callable[..., Awaitable[Response]]]
"""Method, base path, path behind it, endpoint."""


class ResponseBody(BaseModel):
    """A JSON answer."""

    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid")


class ToolCall(ResponseBody):
    """A call that only the client can answer."""

    id: str
    """`call_001`, ..."""
    name: str
    """As the client's definition has it."""
    input: dict[str, Any]


class FileNamed(ResponseBody):
    """A file of a session."""

    id: str
    name: str
    session_id: str
    storage_session_id: str


class ToolCallRequired(ResponseBody):
    """The client's turn: all calls that the program waits for."""

    status: Literal["tool_call_required"]
    session_id: str
    continuation_token: str
    tool_calls: list[ToolCall]


class ApprovalRequired(ResponseBody):
    """The client's turn: calls that need a person's yes, and those that the program waits for beside them."""

    status: Literal["approval_required"]
    session_id: str
    continuation_token: str
    tool_calls: list[ToolCall]
    approvals: list[ToolCall]
    """To be answered with `decisions`. Only where the server asks its clients: `http.ask_clients`."""


class Completed(ResponseBody):
    """The program ended."""

    status: Literal["completed"]
    session_id: str
    stdout: str
    stderr: str
    files: list[FileNamed]
    """Made or changed."""
    deleted_files: list[str] | None = None
    """Names of files that were given and that the program removed; not there where it removed none."""
    unmade_calls: list[str] | None = None
    """Calls that the program reached, and that nothing awaited or used; not there where there are none."""


class StillRunning(ResponseBody):
    """The request preferred not to wait any longer: `GET /executions/{execution_id}?wait=` does."""

    status: Literal["running"]
    session_id: str
    execution_id: str


class Failed(ResponseBody):
    """The program raised or was stopped, or the request went no further."""

    status: Literal["error"]
    error: str
    stdout: str
    stderr: str
    session_id: str | None = None


class Ran(ResponseBody):
    """What `POST /exec` gives; a program that raised is in its `stderr`."""

    stdout: str
    stderr: str
    files: list[FileNamed]
    deleted_files: list[str] | None = None
    """As above."""
    unmade_calls: list[str] | None = None
    """As above."""
    session_id: str | None = None
    """Not there where LibreChat's request went no further."""


class CommandResult(ResponseBody):
    """How a program ran, as a process would have."""

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    execution_time: float | None
    return_code: int | None
    stdout: str
    stderr: str


class RanCode(ResponseBody):
    """What `POST /run_code` gives, as SandboxFusion does."""

    status: Literal["Success", "Failed", "SandboxError"]
    message: str
    compile_result: CommandResult | None
    """Always null."""
    run_result: CommandResult | None
    """Null with `SandboxError`."""
    executor_pod_name: str | None
    files: dict[str, str]
    """Contents in base64, by name."""


class CancellationRequested(ResponseBody):
    """Also where there was nothing to cancel."""

    status: Literal["cancellation_requested"]


class UploadedFile(ResponseBody):
    """A file under the name that it has now."""

    fileId: str
    filename: str


class Uploaded(ResponseBody):
    """The session of an upload, and its files."""

    message: Literal["success"]
    session_id: str
    storage_session_id: str
    files: list[UploadedFile]


class UploadedOfBatch(UploadedFile):
    """The same, with a status."""

    status: Literal["success"]


class UploadedBatch(ResponseBody):
    """The session of an upload, with a status for each file."""

    message: Literal["success"]
    session_id: str
    storage_session_id: str
    files: list[UploadedOfBatch]
    succeeded: int
    failed: int


class FileFacts(FileNamed):
    """A file with all that clients of any age look for."""

    filename: str
    size: int
    contentType: str
    lastModified: str
    metadata: dict[str, str]


class Deleted(ResponseBody):
    """The file is gone."""

    message: Literal["success"]


class State(ResponseBody):
    """Of the server."""

    status: Literal["ok", "ready", "not ready"]
    version: str | None = None


class Refused(ResponseBody):
    """Why, in one line."""

    error: str
    started: bool | None = None
    """With 503 to a start: whether tools of this server were called, so that sending it again may do the same twice."""


class RateLimited(ResponseBody):
    """Too much for now."""

    error: Literal["rate_limited"]
    retry_after_seconds: int


_STATUS_TEXTS: Final[dict[int, tuple[str, tuple[type[ResponseBody], ...]]]] = {
    400: ("What is wrong with the request, its token or its rounds.", (Failed, Refused)),
    401: ("Missing or wrong API key.", (Refused,)),
    403: ("No key is configured, and the request is not from this machine.", (Refused,)),
    404: ("No such file.", (Failed, Refused)),
    408: ("The execution took too long, with the output so far; or the body did.", (Failed, Refused)),
    409: ("Another process goes on with this execution.", (Failed,)),
    413: ("Larger than the limit.", (Failed, Refused)),
    415: ("The body is of another media type than the path takes.", (Refused,)),
    422: ("The Idempotency-Key was sent with another request.", (Failed,)), 429: ("Too much for now.", (RateLimited,)),
    500: ("The sandbox broke.", (Failed, Refused)), 503: ("No sandbox or no ledger is available.", (Refused, State)),
}  # fmt: skip
_JSON: Final = "application/json"
_ACCESS: Final = (401, 403)
_BODY: Final = (400, *_ACCESS, 408, 413, 415, 429)
_PROGRAM: Final = (*_BODY, 404, 409, 422, 500, 503)
_FILE: Final = (400, *_ACCESS, 404, 429)
_STEP: Final = (ToolCallRequired, ApprovalRequired, Completed, Failed)


class _Route(NamedTuple):
    """The request and the responses of a route."""

    shapes: tuple[type[ResponseBody], ...]
    refusals: tuple[int, ...]
    request: type[request_models.RequestBody] | None = None
    status: int = 200
    media_type: str = _JSON
    may_run: bool = False
    """The program may still run when the route answers."""


_ROUTES: Final = {
    "POST /exec/programmatic": _Route(_STEP, _PROGRAM, request_models.ProgrammaticRequest, may_run=True),
    "POST /exec": _Route((Ran, Failed), _PROGRAM, request_models.ExecuteRequest, may_run=True),
    "POST /exec/batch": _Route(
        (), (*_BODY, 404, 500, 503), request_models.BatchRequest, media_type="application/x-ndjson"
    ),
    "POST /run_code": _Route((RanCode,), (*_BODY, 500, 503), request_models.RunCodeRequest),
    "POST /exec/programmatic/cancel": _Route(
        (CancellationRequested,), (*_BODY, 500, 503), request_models.CancelRequest, status=202
    ),
    "GET /executions/{execution_id}": _Route(_STEP, _PROGRAM, may_run=True),
    "GET /executions/{execution_id}/output": _Route((), (*_FILE, 500, 503), media_type="text/event-stream"),
    "DELETE /executions/{execution_id}": _Route((CancellationRequested,), (*_FILE, 500, 503), status=202),
    "POST /upload": _Route((Uploaded,), _BODY),
    "POST /upload/batch": _Route((UploadedBatch,), _BODY),
    "GET /files/{session}": _Route((FileFacts,), (400, *_ACCESS, 429)),
    "GET /download/{session}/{file}": _Route((), _FILE, media_type="*/*"),
    "GET /sessions/{session}/objects/{file}": _Route((FileFacts,), _FILE),
    "DELETE /sessions/{session}/objects/{file}": _Route((Deleted,), _FILE),
    "GET /health": _Route((State,), ()),
    "GET /ready": _Route((State,), (503,)),
    "GET /metrics": _Route((), (*_ACCESS, 429), media_type="text/plain"),
}
_REFERENCE: Final = "#/components/schemas/{model}"
_TEXT: Final = {"type": "string"}
_FORM: Final = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "May be there several times."},
        "session_id": {**_TEXT, "pattern": request_models.SESSION_PATTERN},
    },
}
_START_HEADERS: Final = [
    {"name": name, "in": "header", "required": False, "schema": schema, "description": words}
    for name, schema, words in (
        ("Idempotency-Key", {**_TEXT, "pattern": "^[!-~]{1,255}$"}, "The same key and body get the same answer."),
        ("X-LibreChat-Code-Request-ID", _TEXT, "What a cancel names."),
        ("Prefer", _TEXT, "`respond-async, wait=10`: 202 if it still runs after 10 seconds."),
    )
]
_WAIT: Final = {
    "name": "wait", "in": "query", "required": False, "schema": {"type": "number", "minimum": 0},
    "description": "For how many seconds to wait before 202 is answered.",
}  # fmt: skip


def completed(document: dict[str, Any], descriptions: Iterable[RouteDescription]) -> dict[str, Any]:
    """A document with our routes, as FastAPI describes them, and with our shapes; in place."""
    router = APIRouter()
    for method, base_path, path, endpoint in descriptions:
        options = _options(method, path, _ROUTES[f"{method} {path}"])
        router.add_api_route(f"{base_path}{path}", endpoint, methods=[method], response_class=Response, **options)
    document["paths"] |= get_openapi(title="", version="", routes=router.routes)["paths"]
    document["components"] = _components()
    return document


def _components() -> dict[str, Any]:
    shapes = {StillRunning}.union(*(route.shapes for route in _ROUTES.values()))
    shapes = shapes.union(*(shapes for _, shapes in _STATUS_TEXTS.values()))
    models: list[Any] = [(model, "serialization") for model in sorted(shapes, key=lambda shape: shape.__name__)]
    models += [(route.request, "validation") for route in _ROUTES.values() if route.request is not None]
    _, schemas = models_json_schema(models, ref_template=_REFERENCE)
    return {
        "schemas": schemas["$defs"],
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "bearer": {"type": "http", "scheme": "bearer"},
        },
    }


def _options(method: str, path: str, route: _Route) -> dict[str, Any]:
    """Options of `add_api_route` beside the endpoint."""
    content: dict[str, Any] = (
        _json(*route.shapes) if route.media_type == _JSON else {route.media_type: {"schema": _TEXT}}
    )
    if path == "/files/{session}":
        content[_JSON]["schema"] = {"type": "array", "items": content[_JSON]["schema"]}
    responses: dict[int, dict[str, Any]] = {route.status: {"description": "Done.", "content": content}}
    if route.may_run:
        responses[202] = {"description": "It still runs.", "content": _json(StillRunning)}
    if path.startswith("/exec/") and route.status != 200:
        responses[200] = {"description": "An error, for LibreChat.", "content": _json(Failed)}
    for status in route.refusals:
        description, shapes = _STATUS_TEXTS[status]
        responses[status] = {"description": description, "content": _json(*shapes)}
    parameters: list[dict[str, Any]] = [_in_path(name) for name in re.findall(r"{(\w+)}", path)]
    if route.may_run:
        parameters += _START_HEADERS if method == "POST" else [_WAIT]
    extra: dict[str, Any] = {"parameters": parameters} if parameters else {}
    if 401 in route.refusals:
        extra["security"] = [{"key": []}, {"bearer": []}]
    if method == "POST":
        body = {"multipart/form-data": {"schema": _FORM}} if route.request is None else _json(route.request)
        extra["requestBody"] = {"required": True, "content": body}
    return {"responses": responses, "openapi_extra": extra, "status_code": route.status}


def _in_path(name: str) -> dict[str, Any]:
    schema = {"type": "string", "title": name.replace("_", " ").title()}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _json(*models: type[BaseModel]) -> dict[str, Any]:
    references = [{"$ref": _REFERENCE.format(model=model.__name__)} for model in models]
    return {_JSON: {"schema": references[0] if len(references) == 1 else {"anyOf": references}}}
