"""smolagents' `LocalPythonExecutor`: an interpreter of Python's syntax tree in the same process.

Its tools are called without `await`, and its programs get every module that the programs here import.
"""

from typing import Self

from smolagents.local_python_executor import LocalPythonExecutor

from bench.peers.adapters.base import Adapter, Ran
from bench.peers.blocking import blocking
from bench.peers.spelling import without_await

MODULES = [
    "__future__", "abc", "asyncio", "base64", "bisect", "calendar", "collections", "collections.*",
    "concurrent.futures", "contextlib", "copy", "csv", "dataclasses", "decimal", "enum", "fractions", "functools",
    "hashlib", "heapq", "io", "json", "matplotlib", "matplotlib.*", "numpy", "numpy.*", "operator", "os", "os.*",
    "pandas", "pandas.*", "pathlib", "pprint", "sqlite3", "string", "sys", "tempfile", "textwrap", "threading",
    "typing", "urllib.parse", "uuid", "zoneinfo",
]  # fmt: skip


class Smolagents(Adapter):
    async def __aenter__(self) -> Self:
        functions = {name: blocking(tool) for name, tool in self.tools.items()}
        self._executor = LocalPythonExecutor(MODULES, additional_functions=functions, timeout_seconds=10)
        self._executor.send_tools({})
        return self

    def spell(self, text: str) -> str:
        return without_await(text, self.tools)

    async def run(self, text: str) -> Ran:
        self._executor.state = {"__name__": "__main__"}  # as in a new one; its constructor looks for every module
        answer = self._executor(text)
        return Ran(answer.output, answer.logs)
