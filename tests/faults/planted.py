"""A server with a planted bug, which speaks just enough of the protocol for the clients of the checker."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

Bug = Literal[
    "", "doubled call", "lost reply", "second answer", "lost execution", "lost upload", "wiped file", "not 503"
]
BUGS: tuple[Bug, ...] = (
    "doubled call",
    "lost reply",
    "second answer",
    "lost execution",
    "lost upload",
    "wiped file",
    "not 503",
)
_STEP = re.compile(r'(effect|get_weather)\((?:name|city)="([^"]+)"\)')
_SESSION = re.compile(r'name="session_id"\r\n\r\n(\w+)')
_FILE = re.compile(r'filename="([^"]+)".*?\r\n\r\n(.*?)\r\n--', re.DOTALL)
_WRITTEN = re.compile(r'open\("([^"]+)"')


@dataclass
class Life:
    """A program that runs: what it has still to do, and what it will print."""

    name: str
    session: str
    steps: list[tuple[str, str]]
    written: list[str]
    heard: list[str] = field(default_factory=list)
    answered: int = 0


class Planted:
    """The server; each request that it has seen is answered with what it said the first time, or should be."""

    def __init__(self, bug: Bug = "") -> None:
        self._bug = bug
        self._answers: dict[str, dict[str, Any]] = {}
        self._lives: dict[str, Life] = {}
        self._sessions: dict[str, dict[str, str]] = {}
        self._broken: set[str] = set()
        self.done: list[str] = []
        self.app = FastAPI()
        self.app.add_api_route("/exec/programmatic", self.programmatic, methods=["POST"])
        self.app.add_api_route("/upload", self.upload, methods=["POST"])
        self.app.add_api_route("/files/{session}", self.files, methods=["GET"])
        self.app.add_api_route("/download/{session}/{name}", self.download, methods=["GET"])

    async def programmatic(self, request: Request) -> Response:
        body = await request.json()
        asked = body.get("continuation_token", "") or request.headers["idempotency-key"]
        if asked in self._answers:
            return self._again(asked, body)
        if "code" in body:
            steps, written = _STEP.findall(body["code"]), _WRITTEN.findall(body["code"])
            life = self._lives[asked] = Life(asked, body.get("session_id", ""), steps, written)
        else:
            life = self._lives[asked.partition(":")[0]]
            life.heard += [result["result"] for result in body["tool_results"]]
        self._answers[asked] = self._go_on(life)
        return JSONResponse(self._answers[asked])

    def _again(self, asked: str, body: dict[str, Any]) -> Response:
        match self._bug:
            case "doubled call" if "code" in body:
                self.done += [name for kind, name in _STEP.findall(body["code"])[:1] if kind == "effect"]
            case "second answer":
                return JSONResponse({**self._answers[asked], "salt": secrets.token_hex(4)})
            case "lost execution" if "code" not in body:
                return JSONResponse({"status": "error", "error": "Execution expired"}, status_code=400)
            case "not 503" if asked not in self._broken:
                self._broken.add(asked)
                return JSONResponse({"error": "internal error"}, status_code=500)
        return JSONResponse(self._answers[asked])

    def _go_on(self, life: Life) -> dict[str, Any]:
        while life.steps:
            kind, name = life.steps.pop(0)
            if kind == "get_weather":
                life.answered += 1
                call = {"id": f"call_{life.answered:03}", "name": "get_weather", "input": {"city": name}}
                token = f"{life.name}:{life.answered}"
                return {"status": "tool_call_required", "continuation_token": token, "tool_calls": [call]}
            self.done.append(name)
        files = self._sessions.setdefault(life.session, {})
        if self._bug != "wiped file":
            files.update(dict.fromkeys(life.written, f"by {life.name}"))
        heard = [] if self._bug == "lost reply" else life.heard
        return {"status": "completed", "stdout": " ".join([life.name, *heard]), "stderr": ""}

    async def upload(self, request: Request) -> Response:
        form = (await request.body()).decode()
        files = self._sessions.setdefault(_SESSION.findall(form)[0], {})
        name, text = _FILE.findall(form)[0]
        if self._bug == "lost upload":
            before = set(files)
            await asyncio.sleep(0.2)  # what others bring in the meantime is overwritten
            for other in [one for one in files if one not in before and not files[one].startswith("by ")]:
                del files[other]
        files[name] = text
        return JSONResponse({"message": "success"})

    async def files(self, session: str) -> Response:
        return JSONResponse([{"id": name, "filename": name} for name in self._sessions.get(session, {})])

    async def download(self, session: str, name: str) -> Response:
        return PlainTextResponse(self._sessions[session][name])


@asynccontextmanager
async def served(planted: Planted) -> AsyncIterator[int]:
    """Its port."""
    server = uvicorn.Server(uvicorn.Config(planted.app, port=0, log_level="critical", access_log=False))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task
