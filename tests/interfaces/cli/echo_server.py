"""An MCP server of the older era without the SDK, so that it starts at once: one tool, which tells how it was started."""

import json
import os
import sys

TOOL = {"name": "started", "description": "How this server was started.", "inputSchema": {"type": "object"}}


def answer(request):
    match request.get("method"):
        case "initialize":
            info = {"name": "echo", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            told = {
                "args": sys.argv[1:],
                **({"cwd": os.getcwd()} if "--cwd" in sys.argv else {}),
                "env": {name: os.environ[name] for name in os.environ if name.startswith("MCP_TEST_")},
            }
            return {"content": [{"type": "text", "text": json.dumps(told)}], "structuredContent": told}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message)
        body = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
