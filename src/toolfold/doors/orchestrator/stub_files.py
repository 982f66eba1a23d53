"""A catalog as a tree of stub files: importable, and callable outside of a program too."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from toolfold.doors.orchestrator.definitions import ToolDefinition
from toolfold.doors.orchestrator.workers import served
from toolfold.errors import UsageError
from toolfold.prompts.python_stubs import Stub, write_tree
from toolfold.tools.catalog import Catalog
from toolfold.tools.tool import Tool

_IMPORTS: Final = "from toolfold.orchestrator import call_tool"


class StubGenerator:
    """Writes a catalog as importable files, without an executor: `StubGenerator("stubs").generate(catalog)`.

    Args:
        stub_dir: The folder that `tools/<domain>/<tool>.py` goes below; made if it is not there.
    """

    def __init__(self, stub_dir: str | Path = "stubs") -> None:
        self.stub_dir = Path(stub_dir)

    def generate(self, catalog: Iterable[ToolDefinition]) -> list[Path]:
        """Write every tool, and remove what was written for tools that are gone; the files."""
        definitions = list(catalog)
        tools = [served(definition, {}) for definition in definitions]
        return write_stubs(definitions, tools, self.stub_dir)

    def source(self, definition: ToolDefinition) -> str:
        """What `generate` writes for one tool."""
        with tempfile.TemporaryDirectory() as folder:
            files = write_stubs([definition], [served(definition, {})], Path(folder))
            return next(text for file in files if "async def " in (text := file.read_text(encoding="utf-8")))


def write_stubs(definitions: Iterable[ToolDefinition], tools: Iterable[Tool], folder: Path) -> list[Path]:
    """Write `tools/<domain>/<tool>.py` below `folder`; each body goes to `call_tool`."""
    servers = {definition.name: definition.server for definition in definitions}
    try:
        return write_tree(
            Catalog(tools).specs, folder, body=lambda stub: _body(stub, servers[stub.spec.name]), imports=_IMPORTS
        )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"the stubs cannot be written to {str(folder)!r}: {reason}; name another stub_dir") from error


def _body(stub: Stub, server: str) -> str:
    named = [f"{parameter.name!r}: {parameter.python_name}" for parameter in stub.parameters]
    if stub.further is not None:
        named.append(stub.arguments()[-1].partition(":")[0])
    given = f"{{{', '.join(named)}}}"
    if any(parameter.default == "..." for parameter in stub.parameters):
        given = f"{{_name: _value for _name, _value in {given}.items() if _value is not NOT_GIVEN}}"
    call = f"await call_tool(server={server!r}, tool_name={stub.spec.name!r}, parameters={given})"
    # With a type, because the call gives any value and the stub promises what the tool's schema says.
    return f"_reply: {stub.returns} = {call}\nreturn _reply"
