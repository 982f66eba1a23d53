"""Every text that a model reads of an interface whatever its tools are: `python -m tests.interfaces.model_texts` writes them anew.

They are kept in `model_texts/`, one file for each interface, with their tokens on the first line; so a change of a text shows
in a diff, with what it costs.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.savings import bfcl
from bench.savings.tokens import tokenizer
from toolfold.interfaces.callback import child_server as callback
from toolfold.interfaces.frameworks import program_tool as frameworks
from toolfold.interfaces.gem.action_text import callable_tools, instructions
from toolfold.interfaces.mcp import prompt_texts as mcp
from toolfold.interfaces.pydantic_ai import outcome_returns as pydantic_ai
from toolfold.models import ToolSpec
from toolfold.prompts.catalog import HEADER

FOLDER = Path(__file__).with_name("model_texts")
ONE_TOOL = ToolSpec(name="tool", python_name="tool")


def texts() -> dict[str, str]:
    """By interface: all of it as one text."""
    entry = {
        "name": callback.TOOL.name,
        "description": callback.TOOL.description,
        "parameters": callback.TOOL.input_schema,
    }
    return {
        "mcp": _joined(
            mcp.INSTRUCTIONS,
            _tool(mcp.ENTRY_NAME, f"{mcp.DESCRIPTION}\n\n{HEADER}", mcp.program_schema(120)),
            _tool(mcp.SEARCH_NAME, mcp.SEARCH_DESCRIPTION, mcp.SEARCH_SCHEMA),
        ),
        "mcp_yielding": _joined(
            mcp.INSTRUCTIONS,
            _tool(mcp.ENTRY_NAME, f"{mcp.DESCRIPTION}\n\n{HEADER}", mcp.program_schema(120, yields=True)),
            _tool(mcp.SEARCH_NAME, mcp.SEARCH_DESCRIPTION, mcp.SEARCH_SCHEMA),
            _tool(mcp.WAIT_NAME, mcp.WAIT_DESCRIPTION, mcp.WAIT_SCHEMA),
        ),
        "mcp_contract": _joined(
            mcp.INSTRUCTIONS,
            _tool(mcp.ENTRY_NAME, mcp.CONTRACT, mcp.program_schema(120, is_contract=True)),
            _tool(mcp.SEARCH_NAME, mcp.SEARCH_DESCRIPTION, mcp.SEARCH_SCHEMA),
        ),
        "mcp_contract_yielding": _joined(
            mcp.INSTRUCTIONS,
            _tool(mcp.ENTRY_NAME, mcp.CONTRACT, mcp.program_schema(120, is_contract=True, yields=True)),
            _tool(mcp.SEARCH_NAME, mcp.SEARCH_DESCRIPTION, mcp.SEARCH_SCHEMA),
            _tool(mcp.WAIT_NAME, mcp.WAIT_DESCRIPTION, mcp.WAIT_SCHEMA),
        ),
        "frameworks": _tool(
            frameworks.ENTRY_NAME, f"{frameworks.rules(keeps_names=False, has_both=True)}\n\n{HEADER}", frameworks.SCHEMA
        ),
        "pydantic_ai": _joined(
            _tool(pydantic_ai.RUN_CODE, pydantic_ai.run_code_description([ONE_TOOL]), pydantic_ai.RUN_CODE_SCHEMA),
            _tool(pydantic_ai.SEARCH, pydantic_ai.SEARCH_DESCRIPTION, pydantic_ai.SEARCH_SCHEMA),
        ),
        "callback": json.dumps(entry, ensure_ascii=False),
        "gem": _joined(instructions("Tools", [entry], {"code": "result = 1"}), callable_tools([ONE_TOOL])),
    }  # fmt: skip


def main() -> None:
    """Write the files, with the tokens that the benchmarks' tokenizer counts."""
    bfcl.fetch()
    count, counting = tokenizer(bfcl.HOME)
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / f"{name}.txt").write_text(f"{count(text)} tokens, {counting}\n\n{text}\n", encoding="utf-8")


# Any: a JSON Schema.
def _tool(name: str, description: str, schema: Mapping[str, Any]) -> str:
    return json.dumps(
        {"name": name, "description": description, "input_schema": schema}, ensure_ascii=False, separators=(",", ":")
    )


def _joined(*parts: str) -> str:
    return "\n".join(parts)


if __name__ == "__main__":
    main()
