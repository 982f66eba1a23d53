"""Programs of orchestrator hosts through `toolfold.orchestrator`: examples, patterns, tips, the router."""

import ast
import asyncio
import contextlib
import ctypes
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import toolfold
from tests.escapes_support.seen import descendants
from toolfold.errors import ToolError, ToolNotFound, UsageError
from toolfold.models import Call, Limits, ToolSpec
from toolfold.orchestrator import (
    ProgrammaticToolExecutor,
    ToolCatalog,
    ToolDefinition,
    ToolParameter,
    call_tool,
    function_map,
    tool_map,
)
from toolfold.tools.policy import Policy
from toolfold.tools.router_steps import Breaker, Retry, wrappers
from toolfold.tools.tool import Decision

SOURCE = str(Path(toolfold.__file__).parents[1])

END_TO_END = """
from toolfold.orchestrator import ToolCatalog, ToolDefinition, ToolParameter
from toolfold.orchestrator import ProgrammaticToolExecutor

# 1. Create catalog
catalog = ToolCatalog(source="demo", version="1.0")

# 2. Add tools
catalog.add_tool(ToolDefinition(
    name="get_users",
    type="mcp",
    domain="hr",
    parameters=[ToolParameter(name="dept", type="string", required=True)]
))

catalog.add_tool(ToolDefinition(
    name="get_expenses",
    type="mcp",
    domain="finance",
    parameters=[ToolParameter(name="user_id", type="string", required=True)]
))

# 3. Create executor
executor = ProgrammaticToolExecutor(catalog, enable_stubs=True)

# 4. Generate and execute code
code = \'\'\'
from tools.hr import get_users
from tools.finance import get_expenses
import asyncio

users = await get_users(dept="engineering")
expenses = await asyncio.gather(*[get_expenses(u["id"]) for u in users])

total = sum(e["amount"] for user_exp in expenses for e in user_exp)
print(f"Total expenses: ${total}")
\'\'\'

result = await executor.execute(code)

# 5. Analyze results
print(result["output"])
print(f"Made {len(result['tool_calls'])} tool calls in {result['execution_time']:.2f}s")
"""


async def get_users_worker(payload):
    return [{"id": f"{payload['dept']}-{number}"} for number in range(1, 4)]


async def get_expenses_worker(payload):
    if payload["user_id"] == "alice":
        raise ValueError("no such user 'alice'")
    return [{"amount": 10 * int(payload["user_id"][-1])}]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    tool_map["get_users"] = get_users_worker
    tool_map["get_expenses"] = get_expenses_worker
    yield
    tool_map.clear()
    function_map.clear()


def company() -> ToolCatalog:
    catalog = ToolCatalog(source="demo", version="1.0")
    for name, domain, parameter in (("get_users", "hr", "dept"), ("get_expenses", "finance", "user_id")):
        catalog.add_tool(
            ToolDefinition(
                name=name,
                type="mcp",
                domain=domain,
                description=f"Does {name}.",
                parameters=[ToolParameter(name=parameter, type="string", required=True)],
            )
        )
    return catalog


def catalog_of(*definitions: ToolDefinition) -> ToolCatalog:
    catalog = ToolCatalog(source="test")
    for definition in definitions:
        catalog.add_tool(definition)
    return catalog


@pytest.fixture
async def executor() -> AsyncIterator[ProgrammaticToolExecutor]:
    async with ProgrammaticToolExecutor(company()) as executor:
        yield executor


# --- examples as hosts write them ---------------------------------------------------------------


def test_the_end_to_end_example_runs_with_only_its_imports_changed(capsys: pytest.CaptureFixture[str]) -> None:
    code = compile(END_TO_END, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def main() -> None:
        await eval(code, {"__name__": "__main__"})

    asyncio.run(main())

    printed = re.sub(r"in \d\.\d\ds", "in N s", capsys.readouterr().out)
    assert printed == "Total expenses: $60\n\nMade 4 tool calls in N s\n"


def test_the_stubs_are_a_tree_of_domains(tmp_path: Path) -> None:
    ProgrammaticToolExecutor(company(), enable_stubs=True)

    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.py")) == [
        "stubs/tools/__init__.py",
        "stubs/tools/finance/__init__.py",
        "stubs/tools/finance/get_expenses.py",
        "stubs/tools/hr/__init__.py",
        "stubs/tools/hr/get_users.py",
    ]


def test_no_stubs_are_written_unless_asked_for(tmp_path: Path) -> None:
    ProgrammaticToolExecutor(company())

    assert list(tmp_path.iterdir()) == []


def test_the_stubs_import_and_run_outside_of_a_program(tmp_path: Path) -> None:
    ProgrammaticToolExecutor(company(), enable_stubs=True)
    script = """
import asyncio
from toolfold.orchestrator import tool_map
from tools.hr import get_users
from tools import get_expenses

async def worker(payload):
    return payload

tool_map["get_users"] = tool_map["get_expenses"] = worker
print(asyncio.run(get_users(dept="sales")), asyncio.run(get_expenses(user_id="u")))
"""

    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{SOURCE}:{tmp_path / 'stubs'}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("{'dept': 'sales'} {'user_id': 'u'}\n", "")


async def test_the_result_has_exactly_the_documented_keys(executor: ProgrammaticToolExecutor) -> None:
    result = await executor.execute("result = await get_users(dept='hr')\nprint('done')")

    assert list(result) == ["output", "result", "tool_calls", "execution_time", "error"]
    assert [list(call) for call in result["tool_calls"]] == [["tool", "parameters", "duration", "error"]]
    assert (result["output"], result["result"], result["error"]) == (
        "done\n",
        [{"id": "hr-1"}, {"id": "hr-2"}, {"id": "hr-3"}],
        None,
    )
    assert (result["tool_calls"][0]["tool"], result["tool_calls"][0]["parameters"]) == ("get_users", {"dept": "hr"})
    assert 0 < result["tool_calls"][0]["duration"] < result["execution_time"]


async def test_pattern_parallel_execution(executor: ProgrammaticToolExecutor) -> None:
    waiting = []
    everyone = asyncio.Event()

    async def worker(payload):
        waiting.append(payload["user_id"])
        if len(waiting) == 20:
            everyone.set()
        await everyone.wait()
        return payload["user_id"]

    executor.register_worker("get_expenses", worker)

    result = await executor.execute("""
import asyncio

users = [{"id": str(number)} for number in range(20)]
results = await asyncio.gather(*[
    get_expenses(user_id=u["id"])
    for u in users
])
# All N calls happen concurrently!
results
""")

    assert (result["result"], len(result["tool_calls"])) == ([str(number) for number in range(20)], 20)


async def test_pattern_error_handling(executor: ProgrammaticToolExecutor) -> None:
    result = await executor.execute("""
try:
    result = await get_expenses(user_id="alice")
except Exception as e:
    print(f"Failed: {e}")
    # Execution tracked even if tool fails!
""")

    failure = "'get_expenses' failed: no such user 'alice'"
    assert (result["output"], result["error"]) == (f"Failed: {failure}\n", None)
    assert [(call["tool"], call["parameters"], call["error"]) for call in result["tool_calls"]] == [
        ("get_expenses", {"user_id": "alice"}, failure)
    ]


async def test_pattern_result_filtering(executor: ProgrammaticToolExecutor) -> None:
    result = await executor.execute("""
names, threshold = ["a-1", "b-2", "c-3"], 15
expenses = [(await get_expenses(name))[0]["amount"] for name in names]
# Process results in Python (not LLM context!)
high_spenders = [
    (name, amount)
    for name, amount in zip(names, expenses)
    if amount > threshold
]
high_spenders
""")

    assert result["result"] == [["b-2", 20], ["c-3", 30]]


async def test_pattern_conditional_execution() -> None:
    secret = ToolDefinition(
        name="get_sensitive_data", domain="hr", parameters=[ToolParameter(name="user_id", type="string", required=True)]
    )
    program = """
if user_type == "admin":
    sensitive_data = await get_sensitive_data(user_id)
else:
    sensitive_data = None
sensitive_data
"""
    async with ProgrammaticToolExecutor(catalog_of(secret)) as executor:
        executor.register_worker("get_sensitive_data", lambda payload: f"secret of {payload['user_id']}")

        results = [
            await executor.execute(f"user_type, user_id = {who!r}, 'u1'\n{program}") for who in ("admin", "guest")
        ]

    assert [(result["result"], len(result["tool_calls"])) for result in results] == [("secret of u1", 1), (None, 0)]


async def test_tip_check_tool_calls(executor: ProgrammaticToolExecutor, capsys: pytest.CaptureFixture[str]) -> None:
    result = await executor.execute("""
await get_users(dept="hr")
await asyncio.gather(get_expenses(user_id="alice"), return_exceptions=True)
""")

    for call in result["tool_calls"]:
        print(f"{call['tool']}: {call['duration']:.0f}s")
        if call.get("error"):
            print(f"  ERROR: {call['error']}")

    assert re.sub(r": \d+s", ": 0s", capsys.readouterr().out) == (
        "get_users: 0s\nget_expenses: 0s\n  ERROR: 'get_expenses' failed: no such user 'alice'\n"
    )


async def test_tip_profile_execution(executor: ProgrammaticToolExecutor) -> None:
    async def slow(payload):
        await asyncio.sleep(0.3)

    executor.register_worker("get_expenses", slow)

    result = await executor.execute("await get_users(dept='hr')\nawait get_expenses(user_id='u')")
    slowest = max(result["tool_calls"], key=lambda x: x["duration"])

    assert (slowest["tool"], len(result["tool_calls"])) == ("get_expenses", 2)
    assert result["execution_time"] > slowest["duration"] > 0.29


async def test_tip_enable_logging(executor: ProgrammaticToolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    await executor.execute("await get_users(dept='hr')")

    said = [(record.name, record.getMessage()) for record in caplog.records if record.name.startswith("toolfold")]
    lines = [re.sub(r"^\w{16} |\d+\.\d+", "", text) for name, text in said if name == "toolfold.calls"]
    assert lines == ["call 1 get_users(13 bytes)  ms, 43 bytes"]


# --- strict ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("x = 1\n__import__('os')", "line 2: '__import__' is not allowed in strict mode"),
        ("eval('1')", "line 1: 'eval' is not allowed in strict mode"),
        ("run = exec", "line 1: 'exec' is not allowed in strict mode"),
        ("import os", "line 1: module 'os' is not allowed in strict mode; use a tool instead"),
        ("import json, os.path", "line 1: module 'os.path' is not allowed in strict mode; use a tool instead"),
        ("from subprocess import run", "line 1: module 'subprocess' is not allowed in strict mode; use a tool instead"),
        ("async def f():\n    os.remove('x')", "line 2: 'os.remove' is not allowed in strict mode; use a tool instead"),
        ("open('/etc/passwd')", "line 1: file '/etc/passwd' is outside of the temporary folders"),
        ("open('/tmp/../etc/passwd')", "line 1: file '/tmp/../etc/passwd' is outside of the temporary folders"),
        ("open(file='../x')", "line 1: file '../x' is outside of the temporary folders"),
        ("Path('/root').iterdir()", "line 1: file '/root' is outside of the temporary folders"),
        ("io.open('/x', 'w')", "line 1: file '/x' is outside of the temporary folders"),
        ("open(name)", "line 1: a file whose path is not written out cannot be checked; write the path as text"),
    ],
)
async def test_strict_refuses_the_dangerous_patterns(executor: ProgrammaticToolExecutor, code: str, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        executor._validate_code_safety(ast.parse(code))
    result = await executor.execute(code, strict=True)

    assert str(caught.value) == error
    assert result == {"output": "", "result": None, "tool_calls": [], "execution_time": 0.0, "error": error}


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio, json, math\nusers = await get_users(dept='hr')\nprint(json.dumps(users))",
        "open('/tmp/x', 'w').write('1')",
        "open('out.csv', 'w').write('1')",
        "name = 'x'\nopen(f'/tmp/{name}', 'w').write('1')",
        "from pathlib import Path\nPath('/mnt/data/x').write_text('1')",
        "class os:\n    pass",
    ],
)
async def test_strict_lets_other_programs_pass(executor: ProgrammaticToolExecutor, code: str) -> None:
    executor._validate_code_safety(ast.parse(code))

    assert (await executor.execute(code, strict=True))["error"] is None


async def test_without_strict_the_engine_is_the_boundary(executor: ProgrammaticToolExecutor) -> None:
    result = await executor.execute("import os\nprint(eval('1 + 1'), sorted(os.listdir('/mnt/data')))")

    assert (result["output"], result["error"]) == ("2 []\n", None)


async def test_a_syntax_error_is_told_the_same_way_in_strict_mode(executor: ProgrammaticToolExecutor) -> None:
    results = [await executor.execute("x = (", strict=strict) for strict in (False, True)]

    assert [result["error"] for result in results] == ["line 1: '(' was never closed\nx = (\n    ^"] * 2


# --- mistakes of a program and of the host -----------------------------------------------------


async def test_a_programs_mistakes_are_in_the_result(executor: ProgrammaticToolExecutor) -> None:
    async def error_of(code: str, **options: object) -> str | None:
        return (await executor.execute(code, **options))["error"]

    assert await error_of("x = 1\nraise ValueError('no')") == "line 2: ValueError: no\nraise ValueError('no')"
    assert await error_of("await get_userz(dept='hr')") == (
        "line 1: no tool 'get_userz'; did you mean 'get_users'?\nawait get_userz(dept='hr')\n      ^"
    )
    assert await error_of("while True: pass", limits=Limits(wall_seconds=0.2)) == "the program took longer than 0.2 s"


async def test_output_beyond_the_limit_says_that_it_was_cut(executor: ProgrammaticToolExecutor) -> None:
    result = await executor.execute("print('x' * 100)", limits=Limits(output_bytes=10))

    assert result["output"] == "xxxxxxxxxx\n... (truncated)"


async def test_a_tool_without_a_worker_says_how_to_register_one(executor: ProgrammaticToolExecutor) -> None:
    tool_map.clear()
    program = "try:\n    await get_users(dept='hr')\nexcept ToolError as error:\n    print(error)"

    nothing = await executor.execute(program)
    tool_map["get_user"] = get_users_worker
    near = await executor.execute(program)

    assert [nothing["output"], near["output"]] == [
        "no worker for 'get_users'; register one with tool_map['get_users'] = worker\n",
        "no worker for 'get_users'; did you mean 'get_user'?\n",
    ]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ToolDefinition(name=""), "a tool needs a name, got ''"),
        (
            lambda: ToolDefinition(name="x", type="rest"),
            "tool 'x' has no known type 'rest'; mcp, function, code_exec, agent",
        ),
        (
            lambda: ToolParameter(name="n", type="int"),
            "parameter 'n' has no known type 'int'; did you mean 'integer'?",
        ),
        (
            lambda: ToolParameter(name="n", type="strng"),
            "parameter 'n' has no known type 'strng'; did you mean 'string'?",
        ),
        (
            lambda: ToolDefinition(name="x", parameters=[ToolParameter(name="a"), ToolParameter(name="a")]),
            "tool 'x' has two parameters named 'a'",
        ),
        (
            lambda: ToolDefinition(name="x", url="http://localhost"),
            "tool 'x' has a url, which only a tool of type 'agent' has",
        ),
        (
            lambda: ToolDefinition(name="x", parameters=[ToolParameter(name="a")], input_schema={"type": "object"}),
            "tool 'x' has parameters and an input_schema; keep one of the two",
        ),
        (
            lambda: catalog_of(ToolDefinition(name="x"), ToolDefinition(name="x", domain="d")),
            "two tools are named 'x'; give one of them another name",
        ),
        (lambda: ToolCatalog().add_tool({"name": "x"}), "a catalog holds ToolDefinitions, got dict"),
        (
            lambda: ProgrammaticToolExecutor(
                catalog_of(ToolDefinition(name="x", type="code_exec", input_schema={"type": "object"}))
            ),
            "tool 'x' of type 'code_exec' takes one parameter, the program; got none",
        ),
        (
            lambda: ProgrammaticToolExecutor(ToolCatalog()).register_worker("x", None),
            "the worker for 'x' is not callable, got NoneType",
        ),
        (
            lambda: ProgrammaticToolExecutor(company(), enable_stubs=True, stub_dir="/proc/nowhere"),
            "the stubs cannot be written to '/proc/nowhere': no such file or directory; name another stub_dir",
        ),
    ],
)
def test_a_mistake_of_the_host_is_one_line(make, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()

    assert str(caught.value) == error


async def test_odd_names_work(tmp_path: Path) -> None:
    names = ["class", "日本", "a-b", "a_b", "print"]
    catalog = catalog_of(*(ToolDefinition(name=name, domain="my domain") for name in names))
    for name in names:
        tool_map[name] = lambda payload, name=name: name
    async with ProgrammaticToolExecutor(catalog, enable_stubs=True) as executor:
        result = await executor.execute("""
from tools.my_domain import class_tool, a_b
import tools
others = [name for name in dir(tools) if name.startswith(("a_b_", "tool_", "print_"))]
[await class_tool(), await a_b(), *[await getattr(tools, f"async_{name}")() for name in sorted(others)]]
""")

    assert (result["error"], sorted(result["result"])) == (None, sorted(names))
    for path in tmp_path.rglob("*.py"):
        compile(path.read_text(), path.name, "exec")


async def test_broken_circular_and_huge_definitions_are_working_tools() -> None:
    node = {"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}
    catalog = catalog_of(
        ToolDefinition(name="broken", input_schema={"type": "nope", "properties": []}),
        ToolDefinition(name="circular", input_schema=node),
        ToolDefinition(name="itself", input_schema={"$ref": "#"}),
        ToolDefinition(name="huge", description="x " * 1_000_000),
    )
    async with ProgrammaticToolExecutor(catalog, enable_stubs=True) as executor:
        for name in catalog.tools:
            executor.register_worker(name, lambda payload: payload)
        result = await executor.execute("[await broken(), await circular(next={}), await itself(), await huge()]")

    assert (result["error"], result["result"]) == (None, [{}, {"next": {}}, {}, {}])


# --- workers and routing -----------------------------------------------------------------------


async def test_workers_may_be_async_sync_objects_and_come_late(executor: ProgrammaticToolExecutor) -> None:
    class Worker:
        async def __call__(self, payload):
            return ["object", payload]

    def in_thread(payload):
        return ["thread" if threading.current_thread() is not threading.main_thread() else "loop", payload]

    program = "await get_users(dept='hr')"
    results = [await executor.execute(program)]
    tool_map["get_users"] = in_thread
    results.append(await executor.execute(program))
    executor.register_worker("get_users", Worker())
    results.append(await executor.execute(program))

    assert [result["result"] for result in results] == [
        [{"id": "hr-1"}, {"id": "hr-2"}, {"id": "hr-3"}],
        ["thread", {"dept": "hr"}],
        ["object", {"dept": "hr"}],
    ]


async def test_a_tool_added_later_is_there_for_the_next_program(tmp_path: Path) -> None:
    catalog = company()
    tool_map["late"] = lambda payload: "late"
    async with ProgrammaticToolExecutor(catalog, enable_stubs=True) as executor:
        before = await executor.execute("await late()")
        catalog.add_tool(ToolDefinition(name="late", domain="hr"))
        after = await executor.execute("from tools.hr import late\nawait late()")

    assert (before["error"], after["result"]) == (
        "line 1: no tool 'late'; the tools are: get_users, get_expenses, search_tools\nawait late()\n      ^",
        "late",
    )
    assert (tmp_path / "stubs/tools/hr/late.py").exists()


async def test_a_program_that_runs_while_the_catalog_grows_is_not_disturbed() -> None:
    catalog = company()
    running, may_end = asyncio.Event(), asyncio.Event()

    async def slow(payload):
        running.set()
        await may_end.wait()
        return "slow"

    async with ProgrammaticToolExecutor(catalog) as executor:
        executor.register_worker("get_users", slow)
        first = asyncio.create_task(executor.execute("await get_users(dept='hr')"))
        await running.wait()
        catalog.add_tool(ToolDefinition(name="late"))
        executor.register_worker("late", lambda payload: "late")
        second = await executor.execute("await late()")
        may_end.set()

        assert [(await first)["result"], second["result"]] == ["slow", "late"]


async def test_functions_take_their_arguments_by_name() -> None:
    parameters = [ToolParameter(name="a", type="integer", required=True), ToolParameter(name="b", type="integer")]
    function_map["add"] = lambda a, b=10: a + b
    async with ProgrammaticToolExecutor(
        catalog_of(ToolDefinition(name="add", type="function", parameters=parameters))
    ) as executor:
        result = await executor.execute("[await add(a=1, b=2), await add(5)]")
        direct = [
            await call_tool(server=server, tool_name="add", parameters={"a": 1}) for server in ("default", "function")
        ]

    assert (result["result"], direct) == ([3, 15], [11, 11])


async def test_a_function_of_the_default_server_may_be_a_worker_too() -> None:
    function_map["area"] = lambda width, height: width * height
    tool_map["echo"] = lambda payload: payload

    assert await call_tool(server="default", tool_name="area", parameters={"width": 2, "height": 3}) == 6
    assert await call_tool(server="default", tool_name="echo", parameters={"x": 1}) == {"x": 1}


async def test_call_tool_goes_through_the_catalog_of_an_executor(executor: ProgrammaticToolExecutor) -> None:
    users = await call_tool(server="hr", tool_name="get_users", parameters={"dept": "x"})
    with pytest.raises(ToolError) as bad_argument:
        await call_tool(server="hr", tool_name="get_users", parameters={"dept": 3})
    with pytest.raises(ToolError) as failure:
        await call_tool(server="finance", tool_name="get_expenses", parameters={"user_id": "alice"})

    assert users == [{"id": "x-1"}, {"id": "x-2"}, {"id": "x-3"}]
    assert [str(bad_argument.value), str(failure.value)] == [
        "'get_users' got a bad argument: dept must be a string, got 3",
        "'get_expenses' failed: no such user 'alice'",
    ]


async def test_call_tool_needs_no_executor_for_a_registered_worker() -> None:
    assert await call_tool(server="anything", tool_name="get_users", parameters={"dept": "x"}) == [
        {"id": "x-1"},
        {"id": "x-2"},
        {"id": "x-3"},
    ]
    with pytest.raises(ToolNotFound) as caught:
        await call_tool(server="hr", tool_name="get_user")
    assert str(caught.value) == "no tool 'get_user' at 'hr'; did you mean 'get_users'?"


# --- retry, breaker, idempotency ---------------------------------------------------------------


class Flaky:
    """Fails so many times, then works."""

    def __init__(self, failures: int) -> None:
        self.calls = 0
        self._failures = failures

    async def __call__(self, payload):
        self.calls += 1
        if self.calls <= self._failures:
            raise ConnectionError(f"failure {self.calls}")
        return self.calls


async def test_a_failing_tool_is_called_three_times(executor: ProgrammaticToolExecutor) -> None:
    twice, always = Flaky(2), Flaky(99)
    executor.register_worker("get_users", twice)
    executor.register_worker("get_expenses", always)

    worked = await executor.execute("await get_users(dept='hr')")
    failed = await executor.execute("await get_expenses(user_id='u')")

    assert (worked["result"], twice.calls, len(worked["tool_calls"])) == (3, 3, 1)
    assert worked["tool_calls"][0]["duration"] > 0.15
    assert (failed["tool_calls"][0]["error"], always.calls) == ("'get_expenses' failed: failure 3", 3)


async def test_a_tool_that_keeps_failing_is_left_alone_for_a_while(executor: ProgrammaticToolExecutor) -> None:
    always = Flaky(99)
    executor.register_worker("get_users", always)

    result = await executor.execute("""
errors = await asyncio.gather(*[get_users(dept="hr") for _ in range(5)], return_exceptions=True)
try:
    await get_users(dept="hr")
except ToolError as error:
    print(error)
""")

    assert (result["output"], always.calls) == (
        "'get_users' failed 5 times in a row and is not called until 30 s from now\n",
        15,
    )


async def test_calls_stand_in_their_order_also_after_retries_and_with_an_open_breaker(
    executor: ProgrammaticToolExecutor,
) -> None:
    executor.register_worker("get_expenses", Flaky(99))

    result = await executor.execute("""
await asyncio.gather(*[get_expenses(user_id=str(n)) for n in range(6)], return_exceptions=True)
for n in range(6, 10):
    await asyncio.gather(get_expenses(user_id=str(n)), return_exceptions=True)
""")

    assert [call["parameters"]["user_id"] for call in result["tool_calls"]] == [str(n) for n in range(10)]


async def test_steps_of_ones_own_are_used() -> None:
    twice = Flaky(2)
    catalog = company()
    steps = wrappers(retry=Retry(attempts=1), breaker=Breaker(failures=1))
    async with ProgrammaticToolExecutor(catalog, steps=steps) as executor:
        executor.register_worker("get_users", twice)
        result = await executor.execute("await asyncio.gather(get_users(dept='a'), return_exceptions=True)")
        with pytest.raises(ToolError, match="'get_users' failed 1 times in a row"):
            await executor.call_tool("get_users", {"dept": "a"})

    assert (twice.calls, result["tool_calls"][0]["error"]) == (1, "'get_users' failed: failure 1")


async def test_approve_answers_for_direct_calls_too() -> None:
    async def approve(call: Call, _: ToolSpec) -> Decision:
        return Decision(approved=call.arguments["dept"] == "a", reason="not that one")

    async with ProgrammaticToolExecutor(company(), policy=Policy(ask=["get_users"]), approve=approve) as executor:
        given = await executor.call_tool("get_users", {"dept": "a"})
        with pytest.raises(ToolError, match="'get_users' was denied: not that one"):
            await executor.call_tool("get_users", {"dept": "b"})

    assert len(given) == 3


async def test_the_same_idempotency_key_runs_once(executor: ProgrammaticToolExecutor) -> None:
    counting = Flaky(0)
    executor.register_worker("get_users", counting)
    tool_map["bare"] = counting

    async def call(server: str, name: str, key: str | None) -> int:
        return await call_tool(server=server, tool_name=name, parameters={"dept": "hr"}, idempotency_key=key)

    catalogued = [await call("hr", "get_users", key) for key in ("a", "a", "b", None, None)]
    bare = [await call("x", "bare", key) for key in ("a", "a", "b", None)]

    assert (catalogued, bare) == ([1, 1, 2, 3, 4], [5, 5, 6, 7])


# --- domains and defaults ----------------------------------------------------------------------


def of_domain(domain: str) -> ToolDefinition:
    parameters = [
        ToolParameter(name="id", type="string", required=True),
        ToolParameter(name="limit", type="integer", default=10),
        ToolParameter(name="tags", type="array", default=["new"]),
    ]
    return ToolDefinition(name="get", domain=domain, parameters=parameters)


async def test_domains_are_modules_and_each_may_have_a_tool_of_the_same_name(tmp_path: Path) -> None:
    catalog = ToolCatalog()
    for domain in ("hr", "finance", "old-stock"):
        catalog.add_tool(of_domain(domain))
    program = """
from tools.hr import get
from tools.finance import get as get_of_finance
import tools.old_stock
print(await get(id="1"), await get_of_finance("2"), await tools.old_stock.get("3"))
"""
    async with ProgrammaticToolExecutor(catalog, enable_stubs=True, stub_dir=tmp_path) as executor:
        executor.register_worker("hr.get", lambda payload: f"hr {payload['id']}")
        executor.register_worker("finance.get", lambda payload: f"finance {payload['id']}")
        executor.register_worker("get", lambda payload: f"any {payload['id']}")
        result = await executor.execute(program)
        bare = await executor.execute("await get(id='1')")
        direct = [await call_tool(server, "get", {"id": "4"}) for server in ("hr", "finance", "old-stock")]

    assert (result["output"], result["error"]) == ("hr 1 finance 2 any 3\n", None)
    assert [call["tool"] for call in result["tool_calls"]] == ["hr.get", "finance.get", "old-stock.get"]
    assert bare["error"] == "line 1: no tool 'get'; did you mean 'hr__get'?\nawait get(id='1')\n      ^"
    assert direct == ["hr 4", "finance 4", "any 4"]
    stub = "call_tool(server='finance', tool_name='get', "
    assert [path.name for path in tmp_path.rglob("*.py") if stub in path.read_text()] == ["finance__get.py"]


@pytest.mark.parametrize(
    ("domains", "error"),
    [
        (["hr", "hr"], "two tools are named 'get'; give one of them another name"),
        (["a-b", "a_b"], "two tools are named 'get'; give one of them another name"),
        (["hr", "finance", "hr"], "two tools are named 'get'; give one of them another name"),
        (["hr", ""], "two tools are named 'get'; give one of them another name"),
    ],
)
def test_two_tools_of_one_name_need_two_domains(domains: list[str], error: str) -> None:
    catalog = ToolCatalog()
    for domain in domains[:-1]:
        catalog.add_tool(of_domain(domain))
    with pytest.raises(UsageError) as caught:
        catalog.add_tool(of_domain(domains[-1]))

    assert str(caught.value) == error


async def test_defaults_of_parameters_reach_the_worker_and_are_its_own() -> None:
    payloads: list[dict[str, Any]] = []

    def worker(payload: dict[str, Any]) -> int:
        payloads.append(dict(payload, tags=list(payload["tags"])))
        if payload["tags"] == ["new"]:
            payload["tags"].append("changed")
        return len(payloads)

    catalog = ToolCatalog()
    catalog.add_tool(of_domain("hr"))
    async with ProgrammaticToolExecutor(catalog) as executor:
        executor.register_worker("get", worker)
        result = await executor.execute("await get(id='1')\nawait get(id='2', limit=3, tags=[])")
        await executor.call_tool("get", {"id": "3"})

    assert payloads == [
        {"id": "1", "limit": 10, "tags": ["new"]},
        {"id": "2", "limit": 3, "tags": []},
        {"id": "3", "limit": 10, "tags": ["new"]},
    ]
    assert [call["parameters"] for call in result["tool_calls"]] == [
        {"id": "1"},
        {"id": "2", "limit": 3, "tags": []},
    ]


# --- programs within programs ------------------------------------------------------------------

RUN = ToolDefinition(
    name="run_python", type="code_exec", parameters=[ToolParameter(name="program", type="string", required=True)]
)


async def test_a_code_exec_tool_runs_a_program_and_its_calls_are_tracked() -> None:
    catalog = company()
    catalog.add_tool(RUN)
    async with ProgrammaticToolExecutor(catalog) as executor:
        result = await executor.execute("""
inner = await run_python("print('inner')\\nlen(await get_users(dept='x'))")
print(inner["output"], inner["result"], inner["error"], [call["tool"] for call in inner["tool_calls"]])
failed = await run_python("1 / 0")
print(failed["error"].splitlines()[0])
""")
        direct = await call_tool(server="default", tool_name="run_python", parameters={"program": "6 * 7"})

    assert (result["output"], result["error"]) == (
        "inner\n 3 None ['get_users']\nline 1: ZeroDivisionError: division by zero\n",
        None,
    )
    assert [call["tool"] for call in result["tool_calls"]] == ["run_python", "get_users", "run_python"]
    assert direct["result"] == 42


async def test_a_program_within_a_program_is_under_its_parents_limits() -> None:
    catalog = company()
    catalog.add_tool(RUN)
    many = "for _ in range({n}): await get_users(dept='x')"
    async with ProgrammaticToolExecutor(catalog, limits=Limits(calls=10, wall_seconds=100)) as executor:
        calls = await executor.execute(f"""
inner = await asyncio.gather(*[run_python({many.format(n=4)!r}) for _ in range(3)])
[one["error"] is not None for one in inner].count(True)
""")
        time = await executor.execute(
            "inner = await run_python('while True: pass')\ninner['error']", limits=Limits(wall_seconds=0.5)
        )
        strict = await executor.execute("(await run_python('import os'))['error']", strict=True)

    assert calls["error"] is None
    assert calls["result"] > 0
    assert len([call for call in calls["tool_calls"] if call["error"] is None]) <= 10
    assert time["execution_time"] < 50  # with much room: half a second, and not its own hundred
    assert strict["result"] == "line 1: module 'os' is not allowed in strict mode; use a tool instead"


async def test_a_worker_that_calls_on_spends_what_its_program_has() -> None:
    catalog = company()
    catalog.add_tool(RUN)

    async def worker(payload):
        return await call_tool(server="default", tool_name="run_python", parameters={"program": payload["dept"]})

    async with ProgrammaticToolExecutor(catalog) as executor:
        executor.register_worker("get_users", worker)
        result = await executor.execute("await get_users(dept='while True: pass')", limits=Limits(wall_seconds=0.5))

    assert result["execution_time"] < 50  # with much room: half a second, and not two minutes of its own
    assert [call["tool"] for call in result["tool_calls"]] in ([], ["get_users"])


async def test_programs_cannot_go_deeper_than_four() -> None:
    program = "1"
    for _ in range(4):
        program = f"(await run_python({program!r}))['error'] or 'fine'"
    async with ProgrammaticToolExecutor(catalog_of(RUN)) as executor:
        result = await executor.execute(program)

    refused = [call["error"] for call in result["tool_calls"] if call["error"]]
    assert refused == ["this would be program 5 within another; 4 is the most"]


# --- opening and closing -----------------------------------------------------------------------


async def test_an_executor_opens_again_after_it_was_closed() -> None:
    executor = ProgrammaticToolExecutor(company())

    results = [await executor.execute("1")]
    await executor.close()
    results.append(await executor.execute("2"))
    await executor.close()
    await executor.close()

    assert [result["result"] for result in results] == [1, 2]


async def test_programs_run_side_by_side(executor: ProgrammaticToolExecutor) -> None:
    results = await asyncio.gather(*(executor.execute(f"await get_users(dept='{n}')") for n in range(10)))

    assert [result["result"][0]["id"] for result in results] == [f"{n}-1" for n in range(10)]


def test_execute_sync_keeps_its_engine_and_each_event_loop_has_its_own() -> None:
    executor = ProgrammaticToolExecutor(company())

    results = [executor.execute_sync("1"), executor.execute_sync("len(await get_users(dept='x'))")]
    results += [asyncio.run(executor.execute("3")), asyncio.run(executor.execute("4")), executor.execute_sync("5")]

    assert [result["result"] for result in results] == [1, 3, 3, 4, 5]


async def test_execute_sync_says_what_to_use_within_an_event_loop(executor: ProgrammaticToolExecutor) -> None:
    with pytest.raises(UsageError) as caught:
        executor.execute_sync("1")

    assert str(caught.value) == "an event loop is running here; use 'await executor.execute(...)'"


@pytest.mark.parametrize(
    "use",
    [
        "asyncio.run(executor.execute('1'))",
        "executor.execute_sync('1')",
        "executor.execute_sync('1'); del executor; gc.collect()",
        "executor.execute_sync('1'); asyncio.run(collect())",
        "executor.execute_sync('1'); os.kill(os.getpid(), signal.SIGKILL)",
        "asyncio.new_event_loop().run_until_complete(executor.execute('1'))",
    ],
)
def test_nothing_is_left_behind_when_nobody_closes_the_executor(use: str, tmp_path: Path) -> None:
    script = f"""
import asyncio, gc, os, signal
from toolfold.orchestrator import ProgrammaticToolExecutor, ToolCatalog
async def collect():
    global executor
    del executor
    gc.collect()
executor = ProgrammaticToolExecutor(ToolCatalog())
{use}
"""
    with adopting():
        before = set(descendants(os.getpid()))
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONPATH": SOURCE, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        deadline = time.monotonic() + 60
        while (left := set(descendants(os.getpid())) - before) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.02)

    assert (done.stdout, done.stderr, left, list(tmp_path.iterdir())) == ("", "", set(), [])


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Whatever our descendants leave behind becomes our child, and so is seen."""
    set_child_subreaper = 36
    prctl = ctypes.CDLL(None).prctl
    prctl(set_child_subreaper, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(set_child_subreaper, 0, 0, 0, 0)
