"""A stand-in for `POST /v1/messages`: plays tool uses from a script and keeps what it was shown."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

Json = Any
LAST_ID = "LAST-ID"
"""In a script: the id in the last answer of a program that still runs."""


class Model:
    """One conversation.

    Args:
        script: The tool uses, one per turn, or a list of those made at once; `None` ends the model's turn, and so does
            the end of the script.
        on_turn: Called before each turn's answer with the turn's number, from 0.
        mark: What the name of a tool starts with that side questions, such as one for a title, do not have.
        last_id: Of a program that has yielded in an earlier conversation.
    """

    def __init__(
        self, script: list[Json], on_turn: Callable[[int], None] = lambda turn: None, mark: str = "mcp__",
        last_id: str = "",
    ) -> None:  # fmt: skip
        self.script = script
        self._earlier_id = last_id
        self._mark = mark
        self.requests: list[Json] = []
        self._on_turn = on_turn
        self._turn = 0
        self._ids = count(1)
        self._lock = threading.Lock()

    def answer(self, request: Json) -> tuple[list[Json], str]:
        """The content blocks of the next message, and why it ends."""
        names = [tool.get("name", "") for tool in request.get("tools") or []]
        if not any(name.startswith(self._mark) for name in names):
            return [{"type": "text", "text": "done"}], "end_turn"  # a side question, such as a title
        with self._lock:
            self.requests.append(request)
            turn, self._turn = self._turn, self._turn + 1
        self._on_turn(turn)
        if turn >= len(self.script) or self.script[turn] is None:
            return [{"type": "text", "text": "done"}], "end_turn"
        script = json.loads(json.dumps(self.script[turn]).replace(LAST_ID, self.last_id()))
        uses = script if isinstance(script, list) else [script]
        return [{"type": "tool_use", "id": f"toolu_{next(self._ids):04d}", **one} for one in uses], "tool_use"

    def shown(self) -> list[tuple[bool, Json]]:
        """What came back for each tool use: whether it was an error, and its content."""
        if not self.requests:
            return []
        blocks = [block for message in self.requests[-1]["messages"] for block in _blocks(message)]
        results = [block for block in blocks if block.get("type") == "tool_result"]
        return [(bool(block.get("is_error")), block.get("content")) for block in results]

    def last_id(self) -> str:
        """Of the program that has yielded last."""
        found = re.findall(r"execution_id '([0-9a-f]{32})'", json.dumps(self.shown()))
        return found[-1] if found else self._earlier_id

    def tools(self) -> dict[str, str]:
        """The description of each tool in the last request, by its name."""
        listed = self.requests[-1]["tools"] if self.requests else []
        return {str(one.get("name")): str(one.get("description")) for one in listed}

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Listens on loopback; gives the address."""
        model = self

        class Handler(_Handler):
            said = model

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _blocks(message: Json) -> list[Json]:
    return message["content"] if isinstance(message.get("content"), list) else []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    said: Model

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send(200, b"{}")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if "count_tokens" in self.path:
            return self._send(200, b'{"input_tokens": 100}')
        if "/v1/messages" not in self.path:
            return self._send(404, b'{"type":"error","error":{"type":"not_found_error","message":"no"}}')
        blocks, reason = self.said.answer(request)
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model", "m"),
                   "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
        if not request.get("stream"):
            whole = {**message, "content": blocks, "stop_reason": reason}
            return self._send(200, json.dumps(whole).encode())
        text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in _events(message, blocks, reason))
        return self._send(200, text.encode(), "text/event-stream")

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        with suppress(ConnectionError):  # the client was closed
            self.end_headers()
            self.wfile.write(body)


def _events(message: Json, blocks: list[Json], reason: str) -> Iterator[Json]:
    yield {"type": "message_start", "message": message}
    for at, block in enumerate(blocks):
        if block["type"] == "tool_use":
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        yield {"type": "content_block_start", "index": at, "content_block": start}
        yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    stop = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}
