"""Programs in a real child, with an executor here: the contract of a gem tool."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.interfaces.gem.conftest import NAME, Programs
from toolfold.gem import create_filesystem_tool, create_memory_tool, create_programmatic_tool_calling_tool_stdio

LIMITS = (0.5, 5.0, 50.0)
"""Seconds; each is tried where the one before was over before a busy machine had begun with the program."""


def adding(name, args, call_id):
    if name != "add":
        return False, True, f"Tool not found: {name}", name, call_id
    return True, False, str(args["a"] + args["b"]), name, call_id


def test_the_example_gives_the_documented_json(programs: Programs) -> None:
    seen = []

    def executor(name, args, call_id):
        seen.append((name, args, call_id))
        observation = {"list_files": '["file1.txt", "file2.py"]', "read_file": "processed content"}[name]
        return True, False, observation, name, call_id

    answer = programs.run(
        'files = tools.list_files(path=".")\ncontent = tools.read_file(path=files[0])\nresult = content.upper()',
        executor,
        filename="report",
    )

    first, second = (call_id for _, _, call_id in seen)
    assert answer.pop("execution_time_seconds") > 0
    assert list(answer.items()) == [
        ("success", True),
        ("timeout_limit_seconds", 30),
        ("stdout", ""),
        ("stderr", ""),
        (
            "tool_calls",
            [
                {
                    "tool_name": "list_files",
                    "args": {"path": "."},
                    "tool_call_id": first,
                    "parsed": True,
                    "has_error": False,
                },
                {
                    "tool_name": "read_file",
                    "args": {"path": "file1.txt"},
                    "tool_call_id": second,
                    "parsed": True,
                    "has_error": False,
                },
            ],
        ),
        (
            "tool_results",
            [
                {"tool_call_id": first, "observation": '["file1.txt", "file2.py"]', "has_error": False},
                {"tool_call_id": second, "observation": "processed content", "has_error": False},
            ],
        ),
        ("return_value", "PROCESSED CONTENT"),
        ("error", None),
        ("file_path", ".python_tmp/report.py"),
    ]
    assert (programs.workspace / answer["file_path"]).read_text().startswith("files = tools.list_files")
    assert first != second
    assert first.startswith("call_")


def test_every_way_to_call_a_tool_works(programs: Programs) -> None:
    answer = programs.run(
        """
import asyncio
from tools import add as plus
name = "a" + "dd"
"add"
result = [
    tools.add(a=1, b=1),
    await tools.add(a=1, b=2),
    await tools.async_add(a=1, b=3),
    *await asyncio.gather(tools.add(a=1, b=4), tools.async_add(a=1, b=5)),
    await plus(a=1, b=6),
    await add(a=1, b=7),
    getattr(tools, name)(a=1, b=8),
    tools.call_tool("add", a=1, b=9),
    tools.add({"a": 1, "b": 10}),
]
""",
        adding,
    )

    assert answer["return_value"] == ["2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]


def test_two_identical_calls_are_two_calls(programs: Programs) -> None:
    counted = iter(range(10))

    answer = programs.run(
        "result = [tools.next(), tools.next()]", lambda name, _, i: (True, False, str(next(counted)), name, i)
    )

    assert answer["return_value"] == ["0", "1"]
    assert len({call["tool_call_id"] for call in answer["tool_calls"]}) == 2


def test_an_executors_exception_is_the_cause_that_the_program_and_the_json_show(programs: Programs) -> None:
    def executor(name, args, call_id):
        raise ValueError("kaput")

    answer = programs.run("tools.boom()", executor)

    assert answer["error"]["type"] == "ToolError"
    assert answer["error"]["message"] == "'boom' failed: ValueError: kaput"
    assert answer["error"]["traceback"] == answer["stderr"]
    lines = answer["stderr"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].startswith('  File "test_programs.py", line ')
    assert lines[2:4] == ['    raise ValueError("kaput")', "ValueError: kaput"]
    assert lines[4:] == [
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "<program>", line 1, in __main__',
        "    tools.boom()",
        "ToolError: 'boom' failed: ValueError: kaput",
    ]
    assert [(one["observation"], one["has_error"]) for one in answer["tool_results"]] == [("ValueError: kaput", True)]


def test_a_program_can_catch_what_a_tool_says(programs: Programs) -> None:
    answer = programs.run(
        """
said = []
for name in ("fails", "missing"):
    try:
        getattr(tools, name)()
    except ToolError as error:
        said.append(str(error))
result = said
""",
        lambda name, _, i: (name == "fails", True, f"line one of {name}\nline two", name, i),
    )

    assert answer["success"] is True
    assert answer["return_value"] == [
        "'fails' failed: line one of fails\nline two",
        "no tool 'missing'; the tool executor says: line one of missing\nline two",
    ]
    assert [(call["parsed"], call["has_error"]) for call in answer["tool_calls"]] == [(True, True), (False, True)]


def test_a_message_of_several_lines_stays_whole(programs: Programs) -> None:
    answer = programs.run("tools.fails()", lambda name, _, i: (True, True, "one\ntwo: three", name, i))

    assert (answer["error"]["type"], answer["error"]["message"]) == ("ToolError", "'fails' failed: one\ntwo: three")


@pytest.mark.parametrize(
    ("code", "type_", "message"),
    [
        ("raise KeyError('a: b')", "KeyError", "'a: b'"),
        ("raise ValueError('first line\\nsecond: line')", "ValueError", "first line\nsecond: line"),
        ("raise RuntimeError", "RuntimeError", ""),
        ("e = OSError()\ne.add_note('a: b')\nraise e", "OSError", "a: b"),
        (
            "async def f(): raise ValueError('x')\nasync with asyncio.TaskGroup() as g: g.create_task(f())",
            "ExceptionGroup",
            "unhandled errors in a TaskGroup (1 sub-exception)",
        ),
        ("while True: tools.x()", "LimitExceeded", "the program made more than 1000 tool calls"),
    ],
)
def test_an_error_has_its_type_and_its_message(programs: Programs, code: str, type_: str, message: str) -> None:
    answer = programs.run(code, lambda name, _, i: (True, False, "", name, i))

    assert (answer["error"]["type"], answer["error"]["message"]) == (type_, message)


def test_an_observation_that_is_no_text_is_sent_as_json(programs: Programs) -> None:
    answer = programs.run("result = tools.x()['a']", lambda name, _, i: (True, False, {"a": [1]}, name, i))

    assert (answer["return_value"], answer["tool_results"][0]["observation"]) == ([1], '{"a": [1]}')


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ((True, False, "x"), "3 values"),
        ("text", "str"),
        (None, "NoneType"),
    ],
)
def test_an_executor_that_returns_something_else_is_told_so(programs: Programs, returned, words) -> None:
    answer = programs.run("tools.x()", lambda *_: returned)

    assert answer["error"]["message"] == f"'x' failed: the tool executor must return five values, and returned {words}"


def test_without_an_executor_a_call_says_what_to_do(programs: Programs) -> None:
    answer = programs.run("tools.x()")

    assert answer["error"]["message"] == (
        "'x' failed: there is no tool executor; pass tool_executor=... or call set_tool_executor(...)"
    )


def test_the_time_that_an_executor_takes_counts_for_the_program_s_timers(programs: Programs) -> None:
    def executor(name, args, call_id):
        threading.Event().wait(0.5)
        return True, False, "late", name, call_id

    code = (
        "import asyncio\ntry:\n    await asyncio.wait_for(tools.async_slow(), 0.1)\n"
        "except TimeoutError:\n    print('gave up')"
    )
    answer = programs.run(code, executor)

    assert answer["stdout"] == "gave up\n"


def test_an_executor_that_blocks_longer_than_the_timeout_ends_the_program_in_time(programs: Programs) -> None:
    release = threading.Event()

    def executor(name, args, call_id):
        release.wait(100)
        return True, False, "late", name, call_id

    for limit in LIMITS:
        answer = programs.run("print('before')\ntools.slow()\nprint('after')", executor, timeout=limit)
        if answer["tool_results"]:
            break
    is_blocked = not release.is_set()
    release.set()

    assert is_blocked
    assert (answer["stdout"], answer["timeout_limit_seconds"]) == ("before\n", limit)
    message = f"the program took longer than {limit:g} s"
    assert answer["error"] == {"type": "TimeoutError", "message": message, "traceback": ""}
    assert [one["observation"] for one in answer["tool_results"]] == ["the program ended before the reply"]


def test_time_counts_while_the_program_computes_after_a_call(programs: Programs) -> None:
    for limit in LIMITS:
        answer = programs.run("tools.add(a=1, b=1)\nprint('on')\nwhile True: pass", adding, timeout=limit)
        if answer["stdout"]:
            break

    assert (answer["stdout"], answer["error"]["type"]) == ("on\n", "TimeoutError")


def test_a_quick_reply_does_not_wait_for_a_slow_one(programs: Programs) -> None:
    release = threading.Event()

    def executor(name, args, call_id):
        if name == "slow":
            release.wait(100)
        else:
            release.set()
        return True, False, name, name, call_id

    answer = programs.run(
        """
import asyncio
async def chain():
    await tools.async_quick()
    return await tools.async_frees_the_slow_one()
result = await asyncio.gather(tools.async_slow(), chain())
""".replace("async_quick", "async_first"),
        lambda name, args, i: (True, False, "first", name, i) if name == "first" else executor(name, args, i),
    )

    assert answer["return_value"] == ["slow", "frees_the_slow_one"]


def test_five_programs_run_at_once(programs: Programs) -> None:
    together = threading.Barrier(5, timeout=100)

    def executor(name, args, call_id):
        together.wait()
        return True, False, str(args["i"]), name, call_id

    programs.tool.set_tool_executor(executor)
    with ThreadPoolExecutor(5) as threads:
        answers = list(threads.map(lambda i: programs.run(f"result = int(tools.meet(i={i})) * 10"), range(5)))

    assert [answer["return_value"] for answer in answers] == [0, 10, 20, 30, 40]


def test_an_executor_may_run_a_program_itself(programs: Programs) -> None:
    def executor(name, args, call_id):
        if name == NAME:
            return programs.tool.execute_tool(name, args, call_id)
        return adding(name, args, call_id)

    answer = programs.run(
        "inner = tools.programmatic_tool_calling(code='result = tools.add(a=1, b=2)')\nresult = inner['return_value']",
        executor,
    )

    assert answer["return_value"] == "3"


def test_tools_available_narrows_what_tools_offers(programs: Programs) -> None:
    allowed = programs.run("result = tools.add(a=1, b=2)", adding, _tools_available=["add"])
    refused = programs.run("tools.add(a=1, b=2)\ntools.delete()", adding, _tools_available=["add"])

    assert allowed["return_value"] == "3"
    assert refused["tool_calls"] == []
    assert refused["error"]["message"].splitlines() == [
        "line 2: no tool 'delete'; the tools are: add, search_tools",
        "tools.delete()",
        "      ^",
        "no tool was called; correct the program and send it again",
    ]


def test_set_tools_lets_programs_be_checked_and_keeps_texts_as_texts(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"a": 1}')
    programs.tool.set_tools([programs.tool, create_filesystem_tool(tmp_path), create_memory_tool()])

    good = programs.run(
        """
text = tools.read_file("data.json")
tools.remember(key="text", value={"seen": text})
result = [tools.list_files(), text, tools.recall(key="text"), tools.list_memories()]
"""
    )
    wrong = programs.run("tools.read_fil(path='x')")

    assert good["return_value"] == [["data.json"], '{"a": 1}', {"seen": '{"a": 1}'}, ["text"]]
    assert wrong["error"]["message"].startswith("line 1: no tool 'read_fil'; did you mean 'read_file'?")
    assert "read_file(path: str) -> str" in programs.tool.instruction_string().splitlines()


def test_a_call_that_does_not_fit_never_reaches_the_executor(programs: Programs) -> None:
    class Executor:
        asked: ClassVar[list[Any]] = []

        def list_tools(self) -> list[dict[str, Any]]:
            return [{"name": "a", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}]

        def __call__(self, name: str, args: dict[str, Any], call_id: str) -> Any:
            self.asked.append(args)
            return True, False, "", name, call_id

    answer = programs.run("tools.a(x=int('5'))\nv = ''.join(['5', 'z'])\ntools.a(x=v)", Executor())

    assert Executor.asked == [{"x": 5}]
    assert answer["error"]["message"] == "'a' got a bad argument: x must be an integer, got '5z'"


@pytest.mark.parametrize("listed", [None, ["open", "list"]])
def test_a_tool_named_like_a_builtin_is_reached_through_tools(programs: Programs, listed: list[str] | None) -> None:
    arguments = {} if listed is None else {"_tools_available": listed}

    answer = programs.run(
        "result = [tools.open(x=1), tools.list(x=2), list('ab'), open('f', 'w').close()]",
        lambda name, args, i: (True, False, f"{name}{args['x']}", name, i),
        **arguments,
    )

    assert (answer["error"], answer["return_value"]) == (None, ["open1", "list2", ["a", "b"], None])


def test_a_tools_output_is_passed_on_while_it_runs(tmp_path: Path) -> None:
    heard = []
    half_way = threading.Event()

    def listen(name, call_id, text):
        heard.append((name, text))
        half_way.set()

    def executor(name, args, call_id):
        yield "10 %"
        assert half_way.wait(100)
        yield "90 %"
        return True, False, "done", name, call_id

    tool = create_programmatic_tool_calling_tool_stdio(tmp_path, executor, on_output=listen)
    answer = Programs(tool, tmp_path).run("result = tools.build()")
    tool.close()

    assert answer["return_value"] == "done"
    assert heard == [("build", "10 %"), ("build", "90 %")]


def test_set_tools_passes_on_what_a_generator_says_and_shows_no_lines_of_ours(programs: Programs) -> None:
    class Builder:
        def execute_tool(self, name, args, call_id):
            yield "half"
            return name == "build", name != "build", "done", name, call_id

    class Raiser:
        def execute_tool(self, name, args, call_id):
            raise ValueError("kaput")

    programs.tool.set_tools([Builder(), Raiser()])

    built = programs.run("result = tools.build()", _tools_available=["build"])
    raised = programs.run("tools.other()", _tools_available=["other"])

    assert built["return_value"] == "done"
    assert [line for line in raised["stderr"].splitlines() if line.startswith("  File")][1:] == [
        '  File "<program>", line 1, in __main__'
    ]


def test_wrong_arguments_and_file_names_run_nothing(programs: Programs) -> None:
    unknown = programs.run("1", coode="2")
    outside = programs.run("tools.add(a=1, b=1)", adding, filename="../x.py")
    timeout = programs.run("1", timeout=0)
    long = programs.run("1", timeout=600)

    assert (
        unknown["error"]["message"] == "argument 'coode' of 'programmatic_tool_calling': Extra inputs are not permitted"
    )
    assert outside["error"]["message"].startswith("filename '../x.py' is not a plain file name")
    assert timeout["error"]["message"] == "timeout 0.0 is not a number of seconds above 0"
    assert long["error"]["message"] == "timeout is 600.0; the most here is 120 seconds; nothing was called"
    assert [answer["tool_calls"] for answer in (unknown, outside, timeout, long)] == [[], [], [], []]


def test_another_tools_name_is_left_to_other_tools(programs: Programs) -> None:
    assert programs.tool.execute_tool("list_files", {}, "c") == (
        False,
        True,
        "Tool not found: list_files",
        "list_files",
        "c",
    )


def test_an_action_in_gems_dialect_gives_four_values(programs: Programs) -> None:
    programs.tool.set_tool_executor(adding)
    call = (
        f'<tool_call><tool_name>{NAME}</tool_name><arguments>{{"code": "tools.add(a=1, b=2)"}}</arguments></tool_call>'
    )

    parsed, has_error, observation, parsed_action = programs.tool.execute_action(f"I think.\n{call}\n")

    assert (parsed, has_error, parsed_action) == (True, False, call)
    assert observation.startswith('\n<tool_response>\n{\n  "success": true,')
    assert programs.tool.execute_action("The answer is 3.") == (False, True, "", "")
    assert programs.tool.execute_action(call.replace(NAME, "other")) == (False, True, "", "")
    broken = call.replace("{", "")
    assert programs.tool.execute_action(broken) == (
        True,
        True,
        "\n<tool_response>\nthe arguments are not a JSON object\n</tool_response>\n",
        broken,
    )


def test_repeated_calls_are_answered_from_memory_if_asked_for(tmp_path: Path) -> None:
    calls = []

    def executor(name, args, call_id):
        calls.append(args["x"])
        return True, args["x"] == 3, f"{len(calls)}", name, call_id

    tool = create_programmatic_tool_calling_tool_stdio(tmp_path, executor, cache_seconds=60)
    code = """
def failed(x):
    try:
        tools.get(x=x)
    except ToolError:
        return True

result = [tools.get(x=1), tools.get(x=1), tools.get(x=2), failed(3), failed(3)]
"""
    try:
        answer = Programs(tool, tmp_path).run(code)
    finally:
        tool.close()

    assert (answer["return_value"], calls) == (["1", "1", "2", True, True], [1, 2, 3, 3])
    assert len({call["tool_call_id"] for call in answer["tool_calls"]}) == 5
