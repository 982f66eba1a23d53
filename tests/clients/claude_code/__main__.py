"""Runs the cases and prints a table: `python -m tests.clients.claude_code FOLDER`, with the npm packages in FOLDER.

Each case is one run of the real CLI with `toolfold mcp`, mostly over two real servers, `server-filesystem` and
`server-memory`. The model only plays a script, so no key and no network is needed. Exit 1: a case failed.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clients.claude_code.cli import ENGINE, ROOT, SEARCH, STOP, WAIT, Case, Seen, program_of, run, text
from tests.clients.claude_code.deciding import asking, person
from toolfold.interfaces.mcp.client_questions import CLIENT_ROUNDS, NO_MORE_QUESTIONS

KEPT_CHARACTERS = 4_096
"""Claude Code cuts a description there."""
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TWO_SERVERS = """\
import asyncio
names = ["ada.txt", "grace.txt"]
notes = await asyncio.gather(*(mcp__files__read_text_file(path=f"WORK/{name}") for name in names))
people = [{"name": name[:-4], "entityType": "person", "observations": [note["content"]]}
          for name, note in zip(names, notes)]
await mcp__memory__create_entities(entities=people)
found = await mcp__memory__search_nodes(query="compiler")
print([one["name"] for one in found["entities"]])
"""


PAYMENT = "print(await pay(amount=5, to='ada'))"
ELEVEN = """\
for n in range(11):
    try:
        print(await mcp__memory__read_graph() is not None, end=" ")
    except ToolError as error:
        print(error)
"""


def two_real_servers(work: Path, packages: Path) -> dict[str, Any]:
    memory = {
        "command": program_of(packages, "mcp-server-memory"),
        "env": {"MEMORY_FILE_PATH": str(work / "memory.jsonl")},
    }
    return {"servers": [*filesystem_alone(work, packages)["servers"], {"name": "memory", **memory}]}


def filesystem_alone(work: Path, packages: Path) -> dict[str, Any]:
    return {
        "servers": [{"name": "files", "command": program_of(packages, "mcp-server-filesystem"), "args": [str(work)]}]
    }


def memory_that_asks(work: Path, packages: Path) -> dict[str, Any]:
    # Alone: server-filesystem asks for the client's folders, which takes one of the rounds.
    return {"servers": two_real_servers(work, packages)["servers"][1:], "tools": {"ask": ["mcp__memory__*"]}}


def late_server(work: Path, packages: Path) -> dict[str, Any]:
    script = ROOT / "tests" / "sources" / "mcp" / "raw_server.py"
    return {"servers": [{"name": "late", "command": sys.executable, "args": [str(script), "--start-seconds", "5"]}]}


def naps(count: int, seconds: float) -> str:
    """A program of so many calls, with a line for each."""
    return f"for n in range({count}):\n    await nap(seconds={seconds})\n    print('nap', n)"


def napping(work: Path, packages: Path) -> dict[str, Any]:
    """A tool that takes its time, and a ledger that outlives the server."""
    (work / "naps.py").write_text(
        "import asyncio\nfrom toolfold import tool\n\n@tool(read_only=True)\n"
        "async def nap(seconds: float) -> None:\n    'Take a nap.'\n    await asyncio.sleep(seconds)\n"
    )
    return {
        "servers": [],
        "tools": {"modules": ["naps.py"]},
        "ledger": {"where": "ledger.sqlite"},
        "limits": {"wall_seconds": 400},
    }


GATED = """\
await add_row(row=1)
print('one')
await gate()
await add_row(row=2)
print('rows', await rows())
"""


def gated(work: Path, packages: Path) -> dict[str, Any]:
    """Tools with an effect that must not be repeated, and one that waits until the test opens the gate."""
    (work / "gated.py").write_text(
        "import asyncio, pathlib\nfrom toolfold import tool\nhere = pathlib.Path(__file__).parent\n\n"
        "@tool\ndef add_row(row: int) -> None:\n    'Add a row.'\n"
        "    with (here / 'rows').open('a') as file:\n        file.write(f'{row} ')\n\n"
        "@tool(read_only=True)\ndef rows() -> str:\n    'All rows.'\n    return (here / 'rows').read_text()\n\n"
        "@tool(read_only=True)\nasync def gate() -> None:\n    'Wait.'\n"
        "    while not (here / 'open').exists():\n        await asyncio.sleep(0.02)\n"
    )
    return {"servers": [], "tools": {"modules": ["gated.py"]}, "ledger": {"where": "ledger.sqlite"}}


SAVING = """\
print(await save_program(name="people_known_for", description="Names of people whose notes have a word.",
                         parameters={"query": "compiler"}))
"""


def saving(work: Path, packages: Path) -> dict[str, Any]:
    """Two servers, a ledger that both conversations share, and models that may propose programs."""
    programs = {"folders": ["programs"], "models_may": "propose"}
    return {**two_real_servers(work, packages), "ledger": {"where": "ledger.sqlite"}, "programs": programs}


def accept(work: Path) -> None:
    """What a person does on a terminal."""
    command = [sys.executable, "-m", "toolfold", "programs", "accept", "people_known_for"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    assert done.stdout == "accepted version 1: people_known_for(*, query: str) -> list[str]\n", done


def tokens_of(seen: Seen) -> int:
    """Of what the model wrote and read in one conversation, without what every request has; 4 bytes are 1 token."""
    messages = seen.requests[-1]["messages"][1:]
    return len(json.dumps([message["content"] for message in messages])) // 4


def saved(seen: Seen) -> object:
    assert seen.former is not None
    said = "'people_known_for' is proposed; it can be called once a person accepts it; parameters: query"
    assert seen.former.texts[1] == (False, f"[Script executed successfully]\n{said}\n"), seen.former.texts
    (_, found), (_, answer) = seen.texts
    assert "people_known_for(query: str)" in found, found
    assert answer == "[Script executed successfully]\n['ada']\n", seen.texts
    return f"{tokens_of(seen.former)} tokens to write and propose it, {tokens_of(seen)} to find and call it"


def open_gate(work: Path) -> None:
    assert (work / "rows").read_text() == "1 ", "the program was not where it should be when the window was closed"
    (work / "open").touch()


@contextmanager
def busy(work: Path) -> Iterator[None]:
    """Four processes that take all the time that they get."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def two_servers(seen: Seen) -> object:
    said = "[Script executed successfully]\n['grace']\n"
    assert [(failed, text(content)) for failed, content in seen.shown] == [(False, said)], seen.shown
    assert "\nmcp__files__read_text_file(" in seen.description, seen.description
    return said.splitlines()[1]


def traceback(seen: Seen) -> object:
    said = (
        "[Script execution failed]\nTraceback (most recent call last):\n"
        '  File "<program>", line 2, in __main__\n    print(rows["b"])\nKeyError: \'b\''
    )
    assert [(failed, text(content)) for failed, content in seen.shown] == [(True, said)], seen.shown
    return "traceback shown as an error"


def rejected(seen: Seen) -> object:
    [(failed, content)] = seen.shown
    assert failed, content
    assert text(content).startswith("[Script execution failed]\nline 1: no tool 'mcp__files__read_txt_file'"), content
    assert text(content).endswith("no tool was called. Correct it and send it again."), content
    return "problem shown, nothing called"


def image(seen: Seen) -> object:
    [(failed, content)] = seen.shown
    assert not failed
    assert content[0] == {"type": "text", "text": "[Script executed successfully]\ndrawn\n"}, content
    pictures = [block for block in content if block["type"] == "image"]
    assert [(one["source"]["media_type"], one["source"]["type"]) for one in pictures] == [("image/png", "base64")]
    return f"{len(pictures)} image block"


def stopped(seen: Seen) -> object:
    texts = [_all(content) for _, content in seen.shown]
    assert texts[0].startswith("[Script still running]\nbusy\n"), seen.shown
    assert texts[1:] == [
        "[Script execution failed]\nCancelled: the program was stopped",
        "[Script executed successfully]\nafter\n",
    ], seen.shown
    assert seen.spun, "no process ran the endless program"
    if ENGINE == "wasm":  # whose workers outlive their programs
        return "its instance is gone, and the next program runs"
    assert not seen.spun & seen.alive[2], f"still there after the cancel: {seen.spun & seen.alive[2]}"
    return "its process is gone within a second"


def outlives(seen: Seen) -> object:
    """Each answer has what was printed since the one before, and the last one the end."""
    texts = [_all(content) for _, content in seen.shown]
    assert not any(failed for failed, _ in seen.shown), seen.shown
    assert all(one.startswith("[Script still running]\n") for one in texts[:-1]), texts
    assert texts[-1].startswith("[Script executed successfully]\n"), texts
    printed = [line for one in texts for line in one.splitlines() if line.startswith("nap ")]
    assert printed == [f"nap {n}" for n in range(len(printed))], texts
    return f"{len(texts)} requests, {len(printed)} lines, each once"


def continued(seen: Seen) -> object:
    texts = [_all(content) for _, content in seen.shown]
    assert texts == ["[Script executed successfully]\none\nrows 1 2 \n"], seen.shown
    return "continued in a new window, each effect once"


def listed_at_once(seen: Seen) -> object:
    assert seen.texts == [(False, "[Script executed successfully]\nhere\n")], (seen.texts, seen.output)
    assert len(seen.requests) == 2, len(seen.requests)
    return "the model's first turn has the tools"


def fallen_back(seen: Seen) -> object:
    """Claude Code asks for the newer era, gives that up after three seconds, and then asks for the older one."""
    answers = [json.loads(line) for line in seen.wire.splitlines()]
    assert [one for one in answers if "error" in one] == [], answers
    assert sum("protocolVersion" in one.get("result", {}) for one in answers) == 1, answers
    return f"{listed_at_once(seen)}, both eras answered"


# Any: what a client shows of a result.
def _all(content: Any) -> str:
    return "\n".join(one["text"] for one in content) if isinstance(content, list) else str(content)


def late(seen: Seen) -> object:
    assert SEARCH in seen.tools, sorted(seen.tools)
    assert "waits for them: late\n" in seen.description + "\n", seen.description
    (found_failed, found), called = seen.texts
    assert not found_failed, found
    assert "mcp__late__echo(" in found, found
    assert called == (False, "[Script executed successfully]\nmcp__late__echo\nat last\n"), called
    return "found by search, then called"


def late_again(seen: Seen) -> object:
    assert SEARCH in seen.tools, sorted(seen.tools)
    assert "\nmcp__late__echo(" in seen.description, seen.description
    assert seen.texts == [(False, "[Script executed successfully]\nat once\n")], seen.texts
    return "signatures in the first request"


def filesystem(seen: Seen) -> object:
    assert len(seen.description) <= KEPT_CHARACTERS, len(seen.description)
    written = re.findall(r"^mcp__files__\w+\(.*\) -> .+$", seen.description, re.MULTILINE)
    assert len(written) == 14, seen.description
    return f"{len(written)} signatures with what they return in {len(seen.description)} characters"


def eleven_questions(seen: Seen) -> object:
    refused = f"'mcp__memory__read_graph' was denied: {NO_MORE_QUESTIONS}"
    said = f"[Script executed successfully]\n{'True ' * CLIENT_ROUNDS}{refused}\n"
    assert seen.texts == [(False, said), (False, "[Script executed successfully]\nnext\n")], seen.texts
    return "10 answered, the 11th refused, the session free"


def approved_elsewhere(seen: Seen) -> object:
    said = "[Script executed successfully]\npaid 5 to grace\n"
    assert seen.texts == [(False, said)], seen.texts
    return "approved in the console with other arguments"


def approved_here(seen: Seen) -> object:
    said = "[Script executed successfully]\npaid 5 to ada\n"
    assert seen.texts == [(False, said)], seen.texts
    return "the client's answer counts"


def two_programs(seen: Seen) -> object:
    said = [(False, f"[Script executed successfully]\n{word}\n") for word in ("41", "42", "43")]
    assert seen.texts == said, seen.texts
    return "one session, in turn and at once"


CASES = [
    Case("a program over two servers", [TWO_SERVERS], two_servers, config=two_real_servers),
    Case("a failing program", ['rows = {"a": 1}\nprint(rows["b"])'], traceback),
    Case("a rejected program", ["await mcp__files__read_txt_file(path='x')"], rejected, config=two_real_servers),
    Case(
        "an image",
        [f"import base64\nopen('dot.png', 'wb').write(base64.b64decode('{DOT}'))\nprint('drawn')"],
        image,
    ),
    Case(
        "an endless program, cancelled",
        ["print('busy')\nwhile True: pass", STOP, "print('after')"],
        stopped,
        (("MCP_TOOL_TIMEOUT", "3000"),),
    ),
    Case(
        "longer than the client's timeout",
        [naps(4, 1.5), WAIT, WAIT],
        outlives,
        (("MCP_TOOL_TIMEOUT", "3000"),),
        config=napping,
    ),
    *(
        Case(
            f"the window is closed: {number.name}",
            [WAIT],
            continued,
            (("MCP_TOOL_TIMEOUT", "3000"),),
            config=gated,
            before=(GATED,),
            closed_with=number,
            between=open_gate,
        )
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    ),
    Case("start-up beside four busy processes", ["print('here')"], listed_at_once, beside=busy),
    Case(
        "the same, 7 s late",
        ["print('here')"],
        fallen_back,
        beside=busy,
        delay_seconds=7,
    ),
    Case(
        "a server that takes 5 s to start",
        [
            {"name": SEARCH, "input": {"query": "echo"}},
            "[found, *_] = await search_tools('echo')\nprint(found['name'])\n"
            "print(await mcp__late__echo(text='at last'))",
        ],
        late,
        config=late_server,
    ),
    Case(
        "the same server, the next time",
        ["print(await mcp__late__echo(text='at once'))"],
        late_again,
        config=late_server,
        before=("print(await mcp__late__echo(text='before'))",),
    ),
    Case(
        "server-filesystem alone",
        ["print('at once')"],
        filesystem,
        config=filesystem_alone,
        # On a busy machine it may take longer to start than the first list waits for it.
        before=("print(await mcp__files__list_allowed_directories())",),
    ),
    Case(
        "eleven questions in a row",
        [{"code": ELEVEN, "session": "work"}, {"code": "print('next')", "session": "work"}],
        eleven_questions,
        config=memory_that_asks,
    ),
    Case(
        "two programs in one session",
        [
            {"code": "x = 41\nprint(x)", "session": "work"},
            [{"code": "x += 1\nprint(x)", "session": "work"}, {"code": "x += 1\nprint(x)", "session": "work"}],
        ],
        two_programs,
    ),
    Case(
        "approvals: console",
        [PAYMENT],
        approved_elsewhere,
        config=asking("console"),
        beside=person,
    ),
    Case(
        "approvals: both, the client cancels",
        [PAYMENT],
        approved_elsewhere,
        config=asking("both"),
        beside=person,
        answers=False,
    ),
    Case(
        "a program becomes a tool",
        [{"name": SEARCH, "input": {"query": "people known for"}}, "print(await people_known_for(query='program'))"],
        saved,
        config=saving,
        before=(TWO_SERVERS.replace("print([", "found = [").replace("])\n", "]\nprint(found)\nfound\n"), SAVING),
        between=accept,
    ),
    Case("approvals: both, the client answers", [PAYMENT], approved_here, config=asking("both")),
]


def main() -> int:
    """Run every case, or those that have the words after the folder in their names; exit 1 if one failed."""
    packages = Path(sys.argv[1]).resolve()
    cases = [case for case in CASES if all(word in case.name for word in sys.argv[2:])]
    version = subprocess.run([program_of(packages, "claude"), "--version"], capture_output=True, text=True, check=True)
    print(f"Claude Code {version.stdout.split()[0]}, server-filesystem, server-memory")
    failures = 0
    for case in cases:
        began = time.perf_counter()
        try:
            seen = run(case, packages)
            said = case.expected(seen)
            assert seen.left == set(), f"processes left behind: {seen.left}"
        except AssertionError as error:
            failures += 1
            said = f"FAILED {error}"
        print(f"  {case.name:<36}{time.perf_counter() - began:5.1f} s  {said}", flush=True)
    print(f"{len(cases) - failures} of {len(cases)} as they should be")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
