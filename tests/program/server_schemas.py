"""Tools in the manner of eight public MCP servers: the schemas that such servers send, with words of our own."""

from typing import Any

from toolfold.models import ToolSpec

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def tool(
    server: str, name: str, description: str, properties: dict[str, Any], *required: str, **fields: Any
) -> ToolSpec:
    short = name.replace("-", "_")
    return ToolSpec(
        name=f"mcp__{server}__{name}",
        python_name=f"mcp__{server}__{short}",
        domain=server,
        short_name=short,
        source=f"mcp:{server}",
        description=description,
        input_schema={"type": "object", "properties": properties, "required": list(required)},
        **fields,
    )


def record(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def items(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


EVERYTHING = (
    tool("everything", "echo", "Gives the message back", {"message": {**TEXT, "description": "Message to echo"}}, "message"),
    tool(
        "everything", "get-links", "Links to resources of several kinds.",
        {"count": {**NUMBER, "minimum": 1, "maximum": 10, "default": 3, "description": "How many links"}},
    ),
    tool(
        "everything", "get-weather", "The weather of one city.",
        {"city": {"type": "string", "enum": ["New York", "Chicago"], "description": "City"}}, "city",
        output_schema=record("temperature", "conditions", temperature=NUMBER, conditions=TEXT),
    ),
)  # fmt: skip
FILES = (
    tool(
        "files", "read_text_file", "Read one file as text. Works only inside the allowed folders.",
        {"path": TEXT, "head": {**NUMBER, "description": "Only the first N lines"}}, "path",
        output_schema=record("content", content=TEXT),
    ),
    tool(
        "files", "edit_file", "Replace lines of a text file. Works only inside the allowed folders.",
        {
            "path": TEXT,
            "edits": items(record("oldText", "newText", oldText={**TEXT, "description": "Must match exactly"}, newText=TEXT)),
            "dryRun": {"type": "boolean", "default": False, "description": "Show the diff and change nothing"},
        },
        "path", "edits", output_schema=record("content", content=TEXT),
    ),
)  # fmt: skip
ENTITY = record("name", "entityType", "observations", name=TEXT, entityType=TEXT, observations=items(TEXT))
RELATION = record("from", "to", "relationType", **{"from": TEXT, "to": TEXT, "relationType": TEXT})
GRAPH = record("entities", "relations", entities=items(ENTITY), relations=items(RELATION))
MEMORY = (
    tool(
        "memory", "create_entities", "Add entities to the graph", {"entities": items(ENTITY)}, "entities",
        output_schema=record("entities", entities=items(ENTITY)),
    ),
    tool("memory", "read_graph", "The whole graph", {}, output_schema=GRAPH),
    tool("memory", "open_nodes", "Some nodes of the graph, by name", {"names": items(TEXT)}, "names", output_schema=GRAPH),
)  # fmt: skip
THINKING = (
    tool(
        "thinking", "think", "Take one step of a longer thought.",
        {
            "thought": {**TEXT, "description": "Your current thinking step"},
            "thoughtNumber": {"type": "integer", "minimum": 1, "description": "Current thought number (e.g. 1, 2, 3)"},
            "branchId": {**TEXT, "description": "Branch identifier"},
        },
        "thought", "thoughtNumber",
    ),
)  # fmt: skip
TIME = (
    tool(
        "time", "convert_time", "Convert a time from one zone to another",
        {
            "source_timezone": {**TEXT, "description": "IANA name such as 'Europe/London'"},
            "time": {**TEXT, "description": "24-hour format (HH:MM)"},
        },
        "source_timezone", "time",
    ),
)  # fmt: skip
GIT = (
    tool(
        "git", "git_log", "Shows the commit logs",
        {
            "repo_path": {"title": "Repo Path", "type": "string"},
            "max_count": {"default": 10, "title": "Max Count", "type": "integer"},
            "since": {
                "anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Since",
                "description": "Start timestamp, ISO 8601 or relative ('2 weeks ago')",
            },
        },
        "repo_path",
        output_schema={"type": "object", "properties": {"result": items(TEXT)}, "required": ["result"], "x-wrapped": True},
    ),
)  # fmt: skip
DUCK = (
    tool(
        "duck", "query", "Run one SQL statement.\n\nArgs:\n    sql: In DuckDB's dialect\n", {"sql": TEXT}, "sql",
        output_schema={
            "type": "object", "properties": {"rows": items(items({})), "columns": items(TEXT), "truncated": {"type": "boolean"}},
            "required": ["rows", "columns"],
        },
    ),
)  # fmt: skip
EXCEL = (
    tool(
        "excel", "set_cells", "Write values into a range. Formulas start with '='.",
        {
            "path": TEXT,
            "sheet": TEXT,
            "values": items(items({"anyOf": [TEXT, NUMBER, {"type": "boolean"}, {"type": "null"}]})),
            "style": {"$ref": "#/$defs/Style"},
        },
        "path", "sheet", "values", output_schema={"type": "object", "additionalProperties": {"type": "integer"}},
    ),
)  # fmt: skip
STYLE = {
    "type": "object",
    "properties": {"bold": {"type": "boolean"}, "colour": {"type": "string", "pattern": "^#[0-9a-f]{6}$"}},
}
# `$defs` stand beside the properties.
EXCEL[0].input_schema["$defs"] = {"Style": STYLE}  # type: ignore[index]

SERVERS = {
    "everything": EVERYTHING, "files": FILES, "memory": MEMORY, "thinking": THINKING, "time": TIME, "git": GIT,
    "duck": DUCK, "excel": EXCEL,
}  # fmt: skip
