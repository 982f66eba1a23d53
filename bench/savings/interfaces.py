"""What each interface's definitions take, beside the JSON definitions of the same tools."""

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table

from bench.savings import openings
from bench.savings.task import Task
from bench.savings.tokens import Count
from toolfold.interfaces.mcp.prompt_texts import ENTRY_NAME
from toolfold.prompts.catalog import HEADER, dense_text

JSON = "JSON definitions, direct"
SIGNATURES = "the signatures alone, with return types"
HEAD = "the line that explains their form"
FIXED = "fixed text of the MCP interface, with search_tools"


async def by_interface(tasks: Iterable[Task], count: Count) -> dict[str, float]:
    """Tokens of the definitions, the mean over these tasks."""
    sums: dict[str, float] = {}
    known: dict[tuple[str, ...], dict[str, int]] = {}
    number = 0
    for task in tasks:
        key = tuple(spec.name for spec in task.specs)
        if key not in known:
            known[key] = await _of(task, count)
        number += 1
        for name, tokens in known[key].items():
            sums[name] = sums.get(name, 0) + tokens
    means = {name: tokens / max(1, number) for name, tokens in sums.items()}
    return {**means, HEAD: count(HEADER), FIXED: await _fixed(count)}


async def _of(task: Task, count: Count) -> dict[str, int]:
    sent = {
        JSON: openings.direct(task.specs),
        SIGNATURES: [dense_text(task.specs)],
        "MCP, a client that cuts nothing": await openings.mcp(task.specs, max_characters=openings.SHOWS_ALL),
        "MCP, Claude Code": await openings.mcp(task.specs),
        "openai_tool, anthropic_tool, langchain_tool": await openings.framework(task.specs),
        "Pydantic AI": await openings.pydantic_ai(task.specs),
    }
    return {name: sum(map(count, texts)) for name, texts in sent.items()}


async def _fixed(count: Count) -> int:
    """All that the MCP interface says whatever its tools are: with so little room, none of them is told."""
    told, entry, search = await openings.mcp(openings.MANY, max_characters=openings.NO_ROOM)
    assert ENTRY_NAME in entry, entry
    return count(told) + count(entry) + count(search)


def show_interfaces(console: Console, means: Mapping[str, float]) -> None:
    """Beside the JSON definitions."""
    table = Table("definitions, the mean over all tasks", "tokens", "to JSON")
    for name, tokens in means.items():
        table.add_row(name, f"{tokens:,.0f}", f"{tokens / means[JSON]:.2f}×")
    console.print(table)
