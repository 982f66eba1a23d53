"""`POST /run_code` in SandboxFusion's shapes, read as verl's sandbox rewards read them."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import httpx

from tests.interfaces.http.conftest import KEYS, Served
from tests.interfaces.http.talk import until
from tests.interfaces.http.test_gone import Host, code
from toolfold.engines.base import Died
from toolfold.engines.scripted import ScriptedEngine

WRAPPED = """
import traceback
from string import *
from re import *
from collections import *
from math import *
from io import *
from sys import *
from json import *
from builtins import *
from typing import *
import json
import sys

class Solution:
    def add(self, a: int, b: int) -> int:
        return a + b

_NAME = "add"

def _call():
    said = sys.stdin.read()
    arguments = [json.loads(line) for line in said.split("\\n")]
    target = globals()[_NAME] if _NAME in globals() else getattr(globals()["Solution"](), _NAME)
    return target(*arguments)

if __name__ == '__main__':
    print(json.dumps(_call()))
"""
"""A method whose arguments come as lines of JSON: what verl makes of a task with a `fn_name`."""


async def judged(client: httpx.AsyncClient, text: str, stdin: str | None, expected: str, **more: Any) -> Any:
    """As verl judges a test case: True or False, or -1 sandbox error, -2 runtime error, -3 timeout, -4 compile error."""
    payload = {
        "compile_timeout": 10, "run_timeout": 10, "code": text, "stdin": stdin, "memory_limit_MB": 1024,
        "language": "python", "files": {}, "fetch_files": [], **more,
    }  # fmt: skip
    response = await client.post("/run_code", json=payload)
    response.raise_for_status()
    answer = response.json()
    compiled, ran = answer["compile_result"], answer["run_result"]
    if answer["status"] == "Success":
        assert ran["status"] == "Finished"
        return ran["stdout"].rstrip("\n") == expected.rstrip("\n")
    if answer["status"] == "SandboxError":
        return -1
    assert answer["status"] == "Failed"
    if compiled:
        return -4
    if ran["status"] == "TimeLimitExceeded":
        return -3
    assert ran["status"] == "Error" or ran["return_code"] != 0
    return -2


CASES = [
    ("a, b = map(int, input().split())\nprint(a + b)", "1 2\n", "3", True),
    ("import sys\nprint(sum(map(int, sys.stdin.read().split())))", "1\n2\n3", "6\n", True),
    ("import sys\ninput = sys.stdin.readline\nfor _ in range(int(input())):\n    print(input().strip())",
     "2\nx\ny\n", "x\ny", True),
    ("n = int(open(0).readline())\nprint(n)", "4", "4", True),
    ("print(input())", "1", "2", False),
    (WRAPPED, "1\n2", "3", True),
    ("def main():\n    print(input())\n\nif __name__ == '__main__':\n    main()", "main", "main", True),
    ("print(1)", None, "1", True),
    ("1 / 0", "", "", -2),
    ("print(", "", "", -2),
    ("input()", "", "", -2),
    ("input()", None, "", -2),
    ("import sys\nsys.exit(0)", "", "", True),
    ("import sys\nprint(1)\nsys.exit(2)", "", "1", -2),
    ("x = bytearray(900_000_000)", "", "", -2),
    ("while True: pass", "", "", -3),
]  # fmt: skip


async def test_a_test_case_is_judged_as_the_program_behaves(served: Served) -> None:
    async with served(running=4) as client:
        found = await asyncio.gather(
            *(judged(client, text, stdin, expected, run_timeout=1 if verdict == -3 else 60)
              for text, stdin, expected, verdict in CASES)
        )  # fmt: skip

    assert [(case[0], one) for case, one in zip(CASES, found, strict=True)] == [(case[0], case[3]) for case in CASES]


async def test_the_answer_has_every_field_of_the_original(client: httpx.AsyncClient) -> None:
    text = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)"

    answer = (await client.post("/run_code", json={"code": text, "language": "python"})).json()
    seconds = answer["run_result"].pop("execution_time")

    assert seconds > 0
    assert answer == {
        "status": "Failed",
        "message": "",
        "compile_result": None,
        "run_result": {
            "status": "Finished",
            "return_code": 3,
            "stdout": "out\n",
            "stderr": "err\nSystemExit: 3\n",
        },
        "executor_pod_name": None,
        "files": {},
    }


async def test_files_go_in_and_come_back_in_base64(client: httpx.AsyncClient) -> None:
    text = "open('made.bin', 'wb').write(open('in/given.txt', 'rb').read() * 2)"
    given = {"in/given.txt": base64.b64encode("é".encode()).decode(), "nothing": None}
    fetched = ["made.bin", "in/given.txt", "absent"]

    answer = await client.post(
        "/run_code", json={"code": text, "language": "python", "files": given, "fetch_files": fetched}
    )

    found = {name: base64.b64decode(data).decode() for name, data in answer.json()["files"].items()}
    assert found == {"made.bin": "éé", "in/given.txt": "é"}


async def test_output_is_not_cut_where_a_models_would_be(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/run_code", json={"code": "print('x' * 1_000_000)", "language": "python"})).json()

    assert answer["run_result"]["stdout"] == "x" * 1_000_000 + "\n"


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({}, "code: field required"),
    ({"language": "cpp"}, "language 'cpp' cannot be run here; write Python and send 'python'"),
    ({"run_timeout": 0}, "run_timeout is 0; give more than 0 and at most 300 seconds"),
    ({"run_timeout": 1000}, "run_timeout is 1000; give more than 0 and at most 300 seconds"),
    ({"files": {"a": "?"}}, "files: the content of 'a' is not base64; encode it"),
    (
        {"files": {"../a": ""}},
        "file name '../a' does not stay in the data folder; give a plain relative name",
    ),
    ({"stdin": 5}, "stdin: input should be a valid string"),
    ({"memory_limit_MB": "1"}, "memory_limit_MB: input should be a valid integer"),
]


async def test_a_mistake_is_one_line(client: httpx.AsyncClient) -> None:
    usual = {"code": "1", "language": "python"}

    found = [await client.post("/run_code", json={**usual, **body} if body else {}) for body, _ in MISTAKES]

    assert [(one.status_code, one.json()) for one in found] == [(400, {"error": error}) for _, error in MISTAKES]


async def test_a_sandbox_that_breaks_is_not_the_programs_fault(served: Served) -> None:
    async with served(options={"engine": ScriptedEngine(Died("gone"))}) as client:
        answer = (await client.post("/run_code", json={"code": "1", "language": "python"})).json()

    assert (answer["status"], answer["run_result"]) == ("SandboxError", None)
    assert answer["message"] == "gone; no tool of this server was called; try again"


async def test_a_client_that_leaves_ends_its_program(served: Served) -> None:
    host = Host()
    async with served(**host.options) as client:
        sent = asyncio.create_task(
            client.post("/run_code", json={"code": code("left", hangs=True), "language": "python"})
        )
        await host.has_run("left")
        sent.cancel()
        await asyncio.wait([sent])
        async with asyncio.timeout(20):
            await until(client, "running", 0)

    assert host.ran == ["left"]


async def test_a_client_that_knows_an_address_only_has_its_key_in_it(served: Served, tmp_path: Path) -> None:
    async with served() as client:
        url = client.base_url.copy_with(username="verl", password=KEYS["two"])
        async with httpx.AsyncClient(base_url=url) as plain:
            assert await judged(plain, "print(input())", "1", "1") is True


async def test_a_program_without_tools_of_its_own_may_call_the_servers(served: Served) -> None:
    async def double(x: int) -> int:
        return 2 * x

    async with served(options={"tools": [double]}) as client:
        assert await judged(client, "print(await double(x=int(input())))", "4", "8") is True
