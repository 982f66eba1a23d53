"""A server of the older era without the SDK, so that it starts at once and can misbehave as asked.

python raw_server.py [--probe error|ignore|exit] [--silent] [--die TEXT] [--garbage] [--pages N] ...
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

options = argparse.ArgumentParser()
options.add_argument("--probe", default="error")
options.add_argument("--silent", action="store_true")
options.add_argument("--die", default="")
options.add_argument("--garbage", action="store_true")
options.add_argument("--pages", type=int, default=0)
options.add_argument("--same-cursor", action="store_true")
options.add_argument("--names", default="")
options.add_argument("--schema", default="")
options.add_argument("--log", default="")
options.add_argument("--stubborn", action="store_true")
options.add_argument("--start-seconds", type=float, default=0.0)
chosen = options.parse_args()
lock = threading.Lock()
cancelled = []
answers = {}
extra_tools = []

NOTHING = {"type": "object", "properties": {}}
NUMBER = {"type": "object", "properties": {"number": {"type": "number"}}}
SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def reply(number, **result):
    send({"id": number, "result": result})


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def tool(name, schema=NOTHING, **more):
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **more}


def tools():
    if chosen.names:
        schema = json.loads(chosen.schema) if chosen.schema else TEXT
        return [
            tool(name, schema, **({"outputSchema": schema} if chosen.schema else {}))
            for name in json.loads(chosen.names)
        ]
    safe = {"annotations": {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False}}
    return [
        tool("echo", TEXT, **safe),
        tool("pid", **safe),
        tool("die", annotations={"readOnlyHint": False, "destructiveHint": True}),
        tool("die_once", NUMBER, **safe),
        tool("slow", SECONDS),
        tool("large", {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}),
        tool("cancelled"),
        tool("fail", TEXT),
        tool("refuse", TEXT),
        tool("grow"),
        tool("variable", TEXT),
        tool("mismatch", outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
        tool("ask", TEXT),
        tool("folders"),
        tool("count", {"type": "object", "properties": {"to": {"type": "integer"}}, "required": ["to"]}),
        *extra_tools,
    ]


def log(words):
    if chosen.log:
        with open(chosen.log, "a") as file:
            file.write(words + "\n")


def request(method, params):
    """Ask the client, and wait for its answer."""
    number = f"server-{len(answers)}"
    answers[number] = threading.Event(), []
    send({"id": number, "method": method, "params": params})
    answers[number][0].wait(10)
    return answers[number][1][0]


# One case for each tool is easier to read than one function.
def call(number, name, arguments, meta):  # noqa: C901
    log(name)
    match name:
        case "echo":
            reply(number, **text(arguments["text"]))
        case "broken":
            with lock:
                sys.stdout.write(arguments["text"].replace("ID", json.dumps(number)) + "\n")
                sys.stdout.flush()
        case "pid":
            reply(number, **text(str(os.getpid())))
        case "die":
            sys.stderr.write("out of luck\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        case "die_once":
            if Path(chosen.log).read_text().count("die_once") < 2:
                os.kill(os.getpid(), signal.SIGKILL)
            reply(number, **text("alive"))
        case "slow":
            time.sleep(arguments["seconds"])
            reply(number, **text("done"))
        case "large":
            reply(number, **text("x" * arguments["size"]))
        case "cancelled":
            reply(number, **text(json.dumps(cancelled)))
        case "fail":
            reply(number, isError=True, **text(arguments["text"]))
        case "refuse":
            send({"id": number, "error": {"code": -32000, "message": arguments["text"]}})
        case "grow":
            extra_tools.append(tool(f"grown_{len(extra_tools)}"))
            send({"method": "notifications/tools/list_changed"})
            reply(number, **text("grown"))
        case "variable":
            reply(number, **text(os.environ.get(arguments["text"], "unset")))
        case "mismatch":
            reply(number, structuredContent={"n": "not a number"}, content=[])
        case "ask":
            schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
            answer = request("elicitation/create", {"message": arguments["text"], "requestedSchema": schema})
            reply(number, **text(json.dumps(answer)))
        case "folders":
            reply(number, **text(json.dumps(request("roots/list", {}))))
        case "count":
            for step in range(1, arguments["to"] + 1):
                progress = {"progressToken": meta["progressToken"], "progress": step, "total": arguments["to"]}
                send({"method": "notifications/progress", "params": progress})
            send({"method": "notifications/message", "params": {"level": "info", "data": {"counted": arguments["to"]}}})
            reply(number, **text("counted"))
        case _ if chosen.names:
            reply(number, **text(f"{name}: {arguments.get('text')}"))
        case _:
            send({"id": number, "error": {"code": -32602, "message": f"no tool {name}"}})


# The same, for methods.
def serve(message):  # noqa: C901
    number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    match method:
        case None:
            event, found = answers[number]
            found.append(message.get("result") or message.get("error"))
            event.set()
        case "server/discover" if chosen.probe == "exit":
            os._exit(3)
        case "server/discover":
            if chosen.probe != "ignore":
                send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
        case "initialize":
            log(f"client {json.dumps(params['capabilities'], sort_keys=True)}")
            reply(
                number,
                protocolVersion="2025-06-18",
                capabilities={"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
                serverInfo={"name": "raw", "version": "1"},
                instructions="Be kind.",
            )
        case "tools/list":
            every = tools()
            if not chosen.pages:
                reply(number, tools=every)
            elif chosen.same_cursor:
                reply(number, tools=every[:1], nextCursor="again")
            else:
                at = int(params.get("cursor", 0))
                after = {"nextCursor": str(at + chosen.pages)} if at + chosen.pages < len(every) else {}
                reply(number, tools=every[at : at + chosen.pages], **after)
        case "tools/call":
            arguments = (number, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
            threading.Thread(target=call, args=arguments, daemon=True).start()
        case "resources/list":
            reply(number, resources=[{"uri": "memo://one", "name": "one", "mimeType": "text/plain"}])
        case "resources/read":
            reply(
                number, contents=[{"uri": params["uri"], "mimeType": "text/plain", "text": f"text of {params['uri']}"}]
            )
        case "prompts/list":
            reply(number, prompts=[{"name": "greet"}])
        case "prompts/get" if params["name"] == "greet":
            words = f"Hello {params['arguments']['who']}"
            reply(number, messages=[{"role": "user", "content": {"type": "text", "text": words}}])
        case "prompts/get":
            send({"id": number, "error": {"code": -32602, "message": f"no prompt {params['name']}"}})
        case "notifications/cancelled":
            cancelled.append(params["reason"])


time.sleep(chosen.start_seconds)
if chosen.die:
    sys.exit(chosen.die)
if chosen.garbage:
    print("Welcome to the server!\n{not json", flush=True)
for line in sys.stdin:
    if not chosen.silent:
        serve(json.loads(line))
if chosen.stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
