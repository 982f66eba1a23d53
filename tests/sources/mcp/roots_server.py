"""A server of the older era that lives by the client's folders: `python roots_server.py "in a call"|"at the start"`.

At the start it does as `server-filesystem` does: it asks once it is initialized, and again when they have changed.
"""

import json
import sys

asks_in_calls = sys.argv[1] == "in a call"
roots = []
waiting = []


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer_calls():
    for number in waiting:
        text = ", ".join(one["uri"] for one in roots) or "none"
        send(id=number, result={"content": [{"type": "text", "text": text}]})
    waiting.clear()


for line in sys.stdin:
    message = json.loads(line)
    match message:
        case {"method": "initialize", "id": number}:
            able = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            send(id=number, result={**able, "serverInfo": {"name": "roots", "version": "1"}})
        case {"method": "notifications/initialized" | "notifications/roots/list_changed"}:
            if not asks_in_calls:
                send(id="roots", method="roots/list")
        case {"method": "tools/list", "id": number}:
            schema = {"type": "object", "properties": {}}
            send(id=number, result={"tools": [{"name": "allowed", "inputSchema": schema}]})
        case {"method": "tools/call", "id": number}:
            waiting.append(number)
            if asks_in_calls:
                send(id="roots", method="roots/list")
            else:
                answer_calls()
        case {"id": "roots", **answer}:
            roots = answer.get("result", {}).get("roots", [])
            if asks_in_calls:
                answer_calls()
        case {"method": _, "id": number}:
            send(id=number, error={"code": -32601, "message": "no such method"})
