"""A runtime with two tools, a library of saved programs and a ledger in one folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolfold import programs
from toolfold.execution.request import RuntimeSettings
from toolfold.models import Outcome, ProgramOptions
from toolfold.runtime import Runtime
from toolfold.sources.function_tools import as_tool
from toolfold.tools.tool import Tool

TEXT = """\
month = 3
rows = await expenses(month=month, department="sales")
await note(text=f"{len(rows)} rows")
{"total": sum(row["amount"] for row in rows)}"""


class Tools:
    """Counts the calls that reach it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def all(self) -> list[Tool]:
        async def expenses(month: int, department: str) -> list[dict[str, Any]]:
            """Expenses of a month."""
            self.calls.append(("expenses", month))
            return [{"who": department, "amount": month * 10}, {"who": "b", "amount": 5}]

        async def note(text: str) -> None:
            """Note a text."""
            self.calls.append(("note", text))

        return [as_tool(expenses), as_tool(note)]


@asynccontextmanager
async def opened(folder: Path, tools: list[Tool] | None = None, **options: Any) -> AsyncIterator[Runtime]:
    """Entered with a library in the folder; `library` has its options."""
    library = programs.ProgramLibrary(folder / "programs", **options.pop("library", {}))
    settings = RuntimeSettings(programs=library, ledger=str(folder / "ledger.db"), **options)
    async with Runtime(Tools().all() if tools is None else tools, settings=settings) as runtime:
        yield runtime


async def ran(runtime: Runtime, text: str = TEXT, **options: Any) -> Outcome:
    """The outcome of a program that finished."""
    outcome = await runtime.run(text, options=ProgramOptions(**options))
    assert outcome.status == "finished", outcome.problem
    return outcome


async def saved(runtime: Runtime, name: str = "report", text: str = TEXT, **options: Any) -> programs.SavedProgram:
    """The program, run and saved."""
    tenant = options.get("tenant", "")
    return await programs.save(runtime, (await ran(runtime, text, tenant=tenant)).execution_id, name, **options)
