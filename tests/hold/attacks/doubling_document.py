"""An OpenAPI document whose schemas each name the next one twice, and programs that give its tool a wrong argument."""

import json

from tests.hold.target import Target, again_and_again

ITEM = 16
HTTP = "tools: {hostile: ['*'], honest: ['*']}"
TOOLS = "apis: [{name: evil, spec: evil.json, base_url: 'http://127.0.0.1:9'}]"
_LEVELS = 30
_SCHEMAS = {f"L{n}": {"anyOf": [{"$ref": f"#/components/schemas/L{n + 1}"}] * 2} for n in range(_LEVELS)}
_PARAMETER = {"name": "q", "in": "query", "schema": {"$ref": "#/components/schemas/L0"}}
FILES = {
    "evil.json": json.dumps({
        "openapi": "3.1.0",
        "paths": {"/a": {"post": {"operationId": "wide", "parameters": [_PARAMETER], "responses": {}}}},
        "components": {"schemas": {**_SCHEMAS, f"L{_LEVELS}": {"type": "object", "required": ["z"]}}},
    })
}  # fmt: skip


async def attack(target: Target) -> None:
    body = {"code": "await evil_wide(**{'q': 1})", "tools": [], "timeout": 5000}
    async with target.client() as client:

        async def once(_: int) -> None:
            answer = await client.post("/exec/programmatic", json=body)
            if "no tool" in answer.text:
                raise SystemExit("the server has no tool to attack with")

        await again_and_again(2, once)
