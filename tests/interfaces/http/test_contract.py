"""The contract of `/exec/programmatic` over real HTTP: every request and response type, the error table, the names, the libraries."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interfaces.http.conftest import Served
from tests.interfaces.http.talk import CITY, LIBRECHAT, WEATHER, finish, go_on, result, start, until


async def test_a_tool_call_pauses_the_program_and_its_result_goes_on(client: httpx.AsyncClient) -> None:
    first = await start(client, 'w = await get_weather(city="SF")\nprint(w["temp"])', session_id="mine")
    paused = first.json()
    token = paused.pop("continuation_token")
    second = await go_on(client, token, result("call_001", {"temp": 61}))

    assert (first.status_code, paused) == (
        200,
        {
            "status": "tool_call_required",
            "session_id": "mine",
            "tool_calls": [{"id": "call_001", "name": "get_weather", "input": {"city": "SF"}}],
        },
    )
    assert (second.status_code, second.json()) == (
        200,
        {"status": "completed", "session_id": "mine", "stdout": "61\n", "stderr": "", "files": []},
    )


async def test_a_gather_of_three_is_one_round(client: httpx.AsyncClient) -> None:
    code = 'r = await asyncio.gather(*(get_weather(city=c) for c in ("a", "b", "c")))\nprint(sum(r))'

    body, rounds = await finish(client, await start(client, code), lambda name, _: 2)

    assert (body["stdout"], rounds) == ("6\n", 1)


async def test_the_rest_of_a_partly_answered_gather_stays_open(client: httpx.AsyncClient) -> None:
    code = 'print(await asyncio.gather(get_weather(city="a"), get_weather(city="b")))'
    first = (await start(client, code)).json()

    second = (await go_on(client, first["continuation_token"], result("call_002", "b"))).json()
    third = (await go_on(client, second["continuation_token"], result("call_001", "a"))).json()

    assert [call["id"] for call in second["tool_calls"]] == ["call_001"]
    assert third["stdout"] == "['a', 'b']\n"


async def test_a_failed_tool_raises_in_the_program(client: httpx.AsyncClient) -> None:
    first = (await start(client, 'try:\n    await get_weather(city="a")\nexcept Exception as e:\n    print(e)')).json()
    failed = {"call_id": "call_001", "result": None, "is_error": True, "error_message": "no such city"}

    second = (await go_on(client, first["continuation_token"], failed)).json()

    assert (second["status"], second["stdout"]) == ("completed", "no such city\n")


async def test_too_many_rounds_are_an_error_and_a_higher_limit_lets_them_pass(served: Served) -> None:
    code = 'for i in range(25):\n    await get_weather(city="a")\nprint("done")'
    async with served() as client:
        body, rounds = await finish(client, await start(client, code), lambda *_: 1)
    async with served(max_rounds=25) as client:
        finished, more = await finish(client, await start(client, code), lambda *_: 1)

    assert (body["error"], body["stderr"], rounds) == (
        "Exceeded maximum round trips (20)",
        "Exceeded maximum round trips (20)\n",
        20,
    )
    assert (finished["stdout"], more) == ("done\n", 25)


async def over_time(client: httpx.AsyncClient, prints: str, **options: Any) -> httpx.Response:
    """The answer to a program that prints and goes on for ever; a busy machine may need more than a second to begin."""
    for milliseconds in (1000, 5000, 50_000):
        code = f"print({prints!r}, flush=True)\nwhile True:\n    pass"
        answer = await start(client, code, timeout=milliseconds, **options)
        if f"{prints}\n" in answer.json()["stdout"] + answer.json()["stderr"]:
            break
    return answer


async def test_errors_have_their_own_statuses_and_200_for_librechat(client: httpx.AsyncClient) -> None:
    raised = await start(client, "print('a')\n1 / 0")
    slow = await over_time(client, "b")
    shown = await over_time(client, "b", headers=LIBRECHAT)
    forged = await go_on(client, "no-token", result("call_001", 1))
    told = await go_on(client, "no-token", result("call_001", 1), headers=LIBRECHAT)

    assert (raised.status_code, raised.json()["error"]) == (200, "ZeroDivisionError: division by zero")
    assert (slow.status_code, slow.json()["error"], slow.json()["stdout"]) == (408, "Execution timeout", "b\n")
    assert (shown.status_code, shown.json()["error"]) == (200, "Time limit exceeded")
    assert shown.json()["stderr"] == "Execution timeout\n\nstdout before the error:\nb\n"
    invalid = {
        "status": "error", "error": "Invalid continuation token", "stdout": "", "stderr": "Invalid continuation token\n",
    }  # fmt: skip
    assert (forged.status_code, forged.json()) == (400, invalid)
    assert (told.status_code, told.json()) == (200, invalid)


async def test_an_error_of_several_lines_is_whole(client: httpx.AsyncClient) -> None:
    raised = (await start(client, "raise ValueError('first line\\nsecond line')")).json()
    grouped = (
        await start(
            client, "async def f(): raise KeyError('x')\nasync with asyncio.TaskGroup() as g: g.create_task(f())"
        )
    ).json()

    assert raised["error"] == "ValueError: first line\nsecond line"
    assert raised["stderr"].endswith("\nValueError: first line\nsecond line\n")
    assert raised["stderr"].startswith("Traceback")
    assert grouped["error"] == "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"


async def test_paused_time_counts_and_the_token_expires(client: httpx.AsyncClient) -> None:
    first = (await start(client, 'await get_weather(city="a")', timeout=3000)).json()
    await until(client, "paused", 0)

    late = await go_on(client, first["continuation_token"], result("call_001", 1))
    metrics = (await client.get("/metrics")).text

    assert (late.status_code, late.json()["error"]) == (400, "Execution expired")
    assert "toolfold_http_timeouts_total 1" in metrics
    assert "toolfold_http_paused 0" in metrics


async def test_a_continuation_runs_out_of_the_whole_time(client: httpx.AsyncClient) -> None:
    code = 'print("x", flush=True)\nawait get_weather(city="a")\nwhile True:\n    pass'
    first = (await start(client, code, timeout=3000)).json()

    late = await go_on(client, first["continuation_token"], result("call_001", 1))

    assert (late.status_code, late.json()["error"], late.json()["stdout"]) == (408, "Execution timeout", "x\n")


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([], "tool_results is empty; answer at least one of the open calls"),
        ([result("call_009", 1)], "no open call 'call_009'; open are call_001"),
        ([result("nine", 1)], "call_id 'nine' is none of ours; send back the id of the tool call"),
        ([result("call_001", 1), result("call_001", 2)], "'call_001' is answered twice; answer each call once"),
        ([{"call_id": "call_001"}], "the result of 'call_001' is missing; send 'result', or 'is_error' with a message"),
        ([{"call_id": 1, "result": 1}], "tool_results.0.call_id: input should be a valid string"),
    ],
)
async def test_wrong_results_are_told_and_the_token_stays_good(
    client: httpx.AsyncClient, results: list[Any], text: str
) -> None:
    first = (await start(client, 'print(await get_weather(city="a"))')).json()

    wrong = await go_on(client, first["continuation_token"], *results)
    right = await go_on(client, first["continuation_token"], result("call_001", 1))

    assert (wrong.status_code, wrong.json()["error"]) == (400, text)
    assert right.json()["stdout"] == "1\n"


async def test_names_are_normalised_as_the_client_does(client: httpx.AsyncClient) -> None:
    names = {"get-weather": "get_weather", "my tool": "my_tool", "for": "for_tool", "123data": "_123data"}
    code = "\n".join(f"print(await {name}(x=1))" for name in names.values())

    body, _ = await finish(client, await start(client, code, *({"name": name} for name in names)), lambda name, _: name)

    assert body["stdout"].splitlines() == list(names)


async def test_a_stub_carries_description_and_parameters(client: httpx.AsyncClient) -> None:
    body = (await start(client, "print(get_weather.__doc__)")).json()

    assert body["stdout"] == f"Weather of a city.\n\nParameters: {json.dumps(CITY)}\n"


@pytest.mark.long
async def test_libraries_are_usable_without_import(client: httpx.AsyncClient) -> None:
    code = """
x = numpy.arange(6.0)
model = sklearn.linear_model.LinearRegression().fit(x.reshape(-1, 1), 2 * x + 1)
print(model.coef_.round(3).tolist(), scipy.stats.norm.cdf(0), pandas.DataFrame({"a": x}).a.mean())
matplotlib.pyplot.figure().savefig("empty.png")
print(json.dumps({"a": 1}), re.findall("[0-9]+", "a1b22"), datetime.datetime(2024, 1, 1).year)
print(await asyncio.sleep(0, "slept"), np is numpy, pd is pandas, plt is matplotlib.pyplot)
"""

    body = (await start(client, code, timeout=60000)).json()

    assert body["stderr"] == ""
    assert body["stdout"].splitlines() == [
        "[2.0] 0.5 2.5",
        """{"a": 1} ['1', '22'] 2024""",
        "slept True True True",
    ]
    assert [file["name"] for file in body["files"]] == ["empty.png"]


async def test_exec_runs_a_program_without_tools(client: httpx.AsyncClient) -> None:
    good = await client.post("/exec", json={"lang": "py", "code": "print(1)", "session_id": "s"})
    bad = await client.post("/exec", json={"lang": "py", "code": "1 / 0", "session_id": "s"})
    other = await client.post("/exec", json={"lang": "js", "code": "1"}, headers=LIBRECHAT)

    assert good.json() == {"session_id": "s", "stdout": "1\n", "stderr": "", "files": []}
    assert bad.status_code == 200
    assert bad.json()["stderr"].splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert other.json()["stderr"] == "lang 'js' cannot be run here; write Python and send 'py'\n"


async def test_a_base_path_stands_before_every_path(served: Served) -> None:
    async with served(base_path="/v1") as client:
        statuses = [(await client.get(path)).status_code for path in ("/health", "/ready", "/metrics", "/docs")]
        outside = await client.get(str(client.base_url).replace("/v1", "/health"))

    assert (statuses, outside.status_code) == ([200] * 4, 404)


async def test_what_real_clients_sent_is_understood(client: httpx.AsyncClient) -> None:
    folder = Path(__file__).parent / "wire"
    for path in sorted(folder.glob("*.json")):
        body = json.loads(path.read_text("utf-8"))
        answer = (await client.post("/exec/programmatic", json=body, headers=LIBRECHAT)).json()

        assert answer["status"] == "tool_call_required", path.name


async def test_a_cancel_ends_a_running_and_a_paused_execution(client: httpx.AsyncClient) -> None:
    running = asyncio.create_task(
        start(client, "while True:\n    pass", headers={"X-LibreChat-Code-Request-ID": "r1"}, timeout=60000)
    )
    await until(client, "running", 1)
    cancelled = await client.post("/exec/programmatic/cancel", json={"request_id": "r1"})
    paused = (await start(client, 'await get_weather(city="a")', headers={"X-LibreChat-Code-Request-ID": "r2"})).json()
    await client.post("/exec/programmatic/cancel", json={"request_id": "r2"})
    after = await go_on(client, paused["continuation_token"], result("call_001", 1))

    assert (cancelled.status_code, cancelled.json()) == (202, {"status": "cancellation_requested"})
    assert (await running).json()["error"] == "Execution cancelled"
    assert (after.status_code, after.json()["error"]) == (400, "Execution expired")


async def test_a_tool_of_the_caller_may_not_have_the_name_of_a_tool_here(served: Served) -> None:
    def get_weather(city: str) -> str:
        return city

    async with served(options={"tools": [get_weather]}) as client:
        clash = await start(client, "1", WEATHER)
        own = await start(client, 'print(await get_weather(city="here"))', {"name": "other"})

    assert clash.json()["error"] == "tool 'get_weather' is one of this server's own; rename yours"
    assert own.json()["stdout"] == "here\n"


async def test_an_execution_waits_for_its_session_without_holding_up_the_others(served: Served) -> None:
    code = "import os\nn = len(os.listdir())\nopen(str(n), 'w').close()\nprint(n, await get_weather(city='a'))"
    async with served(running=2) as client:
        first = (await start(client, code, session_id="s")).json()
        waiting = [asyncio.create_task(start(client, code, session_id="s")) for _ in range(3)]
        await asyncio.sleep(0.2)
        other = (await start(client, "print('free')")).json()
        bodies = [await finish(client, first, lambda *_: "x")]
        # Each is paused only when the one before it has ended.
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            task = done.pop()
            waiting.remove(task)
            bodies.append(await finish(client, await task, lambda *_: "x"))

    assert other["stdout"] == "free\n"
    assert [body["stdout"] for body, _ in bodies] == ["0 x\n", "1 x\n", "2 x\n", "3 x\n"]


async def test_a_rejected_program_leaves_its_session_to_the_next_one(client: httpx.AsyncClient) -> None:
    rejected = await start(client, "print(", session_id="s")
    corrected = await start(client, "print(1)", session_id="s", timeout=9000)

    assert (rejected.json()["status"], corrected.json()["status"]) == ("error", "completed")


async def test_a_request_that_waits_for_its_session_times_out_and_can_be_cancelled(client: httpx.AsyncClient) -> None:
    await start(client, "await get_weather(city='a')", session_id="s", timeout=20000)
    waiting = asyncio.create_task(
        start(client, "print(1)", session_id="s", timeout=4000, headers={"X-LibreChat-Code-Request-ID": "w"})
    )
    await asyncio.sleep(0.1)
    await client.post("/exec/programmatic/cancel", json={"request_id": "w"})
    late = await start(client, "print(1)", session_id="s", timeout=1000)

    assert (late.status_code, late.json()["error"]) == (408, "Execution timeout")
    assert (await waiting).status_code in (400, 408)


async def test_a_tool_named_like_a_builtin_is_refused_with_its_spelling_and_works_under_it(
    client: httpx.AsyncClient,
) -> None:
    tool = {**WEATHER, "name": "open"}

    told = (await start(client, "print(await open(city='a'))", tool)).json()
    body, _ = await finish(client, await start(client, "print(await open_tool(city='a'))", tool), lambda name, _: name)

    assert told["error"] == "line 1: 'open' is Python's own; the tool is called 'open_tool'"
    assert (body["status"], body["stdout"]) == ("completed", "open\n")


async def test_arguments_that_do_not_fit_raise_in_the_program_and_never_reach_the_client(
    client: httpx.AsyncClient,
) -> None:
    tool = {"name": "a", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}

    wrong = (await start(client, "v=''.join(['5','z']); await a(x=v)", tool)).json()
    unknown = (await start(client, "await a(**{'z' 'z': 1})", tool)).json()
    right = (await start(client, "await a(x=int('5'))", tool)).json()

    assert wrong["error"] == "ToolError: 'a' got a bad argument: x must be an integer, got '5z'"
    assert unknown["error"] == "ToolError: 'a' got a bad argument: no parameter 'zz'; it takes x"
    assert [call["input"] for call in right["tool_calls"]] == [{"x": 5}]
