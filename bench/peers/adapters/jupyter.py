"""A warm Jupyter kernel: one process that all programs share, names and all.

Jupyter has no way to call a tool, so the kernel gets one, as people give it: a function for each tool
that writes a line to a socket and waits for the answer, many at a time.
"""

import ast
import asyncio
import inspect
import json
import tempfile
from pathlib import Path
from typing import Any, Self

from jupyter_client.manager import AsyncKernelManager

from bench.peers.adapters.base import Adapter, Ran

BEGINNING = """
import asyncio as _asyncio, json as _json
_waiting = {{}}
_reader, _writer = await _asyncio.open_unix_connection({path!r}, limit=1 << 30)
async def _listen():
    while line := await _reader.readline():
        answer = _json.loads(line)
        future = _waiting.pop(answer["id"])
        if future.done():
            pass  # cancelled by the program
        elif "error" in answer:
            future.set_exception(RuntimeError(answer["error"]))
        else:
            future.set_result(answer["value"])
_listener = _asyncio.ensure_future(_listen())
def _call(name, arguments):
    future = _asyncio.get_running_loop().create_future()
    _waiting[id(future)] = future
    _writer.write(_json.dumps({{"id": id(future), "name": name, "arguments": arguments}}).encode() + b"\\n")
    return future
"""


class Jupyter(Adapter):
    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        path = str(Path(self._folder.name) / "tools")
        self._server = await asyncio.start_unix_server(self._serve, path, limit=1 << 20)
        self._kernel = AsyncKernelManager(kernel_name="python3")
        await self._kernel.start_kernel(cwd=self._folder.name)
        self._client = self._kernel.client()
        self._client.start_channels()
        await self._client.wait_for_ready(timeout=60)
        self._lock = asyncio.Lock()  # a kernel runs one program at a time
        await self.run(BEGINNING.format(path=path) + "".join(map(_function, self.tools.values())))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._client.stop_channels()
        await self._kernel.shutdown_kernel(now=True)
        self._server.close()
        self._folder.cleanup()

    async def run(self, text: str) -> Ran:
        value, printed, error = None, "", ""
        async with self._lock:
            asked = self._client.execute(text)
            while True:
                message = await self._client.get_iopub_msg()
                if message["parent_header"].get("msg_id") != asked:
                    continue
                kind, content = message["msg_type"], message["content"]
                if kind == "status" and content["execution_state"] == "idle":
                    break
                if kind == "stream" and content["name"] == "stdout":
                    printed += content["text"]
                elif kind == "execute_result":
                    value = _value(content["data"]["text/plain"])
                elif kind == "error":
                    error = f"{content['ename']}: {content['evalue']}"
            await self._client.get_shell_msg()
        if error:
            raise RuntimeError(error)
        return Ran(value, printed)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def answer(asked: dict[str, Any]) -> None:
            reply: dict[str, Any] = {"id": asked["id"]}
            try:
                reply["value"] = await self.tools[asked["name"]](**asked["arguments"])
            # The tool's failure is the program's to handle.
            except Exception as error:  # noqa: BLE001
                reply["error"] = str(error)
            writer.write(json.dumps(reply).encode() + b"\n")

        async with asyncio.TaskGroup() as calls:
            while line := await reader.readline():
                calls.create_task(answer(json.loads(line)))
        writer.close()


def _function(tool: Any) -> str:
    parameters = list(inspect.signature(tool).parameters.values())
    signature = ", ".join(one.name if one.default is one.empty else f"{one.name}={one.default!r}" for one in parameters)
    arguments = ", ".join(f"'{one.name}': {one.name}" for one in parameters)
    name = tool.__name__
    return f"async def {name}({signature}):\n    return await _call('{name}', {{{arguments}}})\n"


def _value(shown: str) -> Any:
    try:
        return ast.literal_eval(shown)
    except (ValueError, SyntaxError):
        return shown
