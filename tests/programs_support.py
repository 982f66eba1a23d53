"""Programs in files: what their last lines say of them, what is compared of an outcome, and the tools they call.

A program ends in comments that say what it does:

    # expect stdout:                  lines after `# | `; "stdout without its last newline" if it has none
    # expect stderr:                  likewise, before the traceback
    # expect value: [1, 2]            a Python literal, or `Media(...)`; left out, it is `None`
    # expect calls: 3                 left out, it is 0
    # expect error:                   the traceback, lines after `# | `
    # expect message:                 the problem's, if it is not the traceback's last line
    # expect problem: value: ...      the kind and message of a problem that has no traceback
    # expect rejected: line 2: ...    the line and message of a problem that is told before the program runs
    # expect files: notes.txt         names of the produced files
    # expect hints:                   lines after `# | `; compared for accents alone
    # limits: monty                   engines that cannot run it; `docs/limitations/` must name the program
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from toolfold.errors import EngineUnavailable
from toolfold.models import Media, Outcome, Problem, ToolSpec
from toolfold.runtime import Runtime, RuntimeSettings
from toolfold.tools.router_steps import Breaker, wrappers
from toolfold.tools.tool import Tool

ENGINES = tuple(os.environ.get("ENGINES", "process,monty").split(","))
LIMITATIONS = Path(__file__).parent.parent / "docs" / "limitations"
PICTURE = Media(kind="image", mime="image/png", data=b"\x89PNG", name="dot.png")


@asynccontextmanager
async def started(engine: str) -> AsyncIterator[Runtime]:
    # One runtime serves all programs: a breaker that remembers the failing ones would stop the rest, and what was
    # learned of a tool's replies would show in `help()`.
    steps = wrappers(breaker=Breaker(failures=1_000_000))
    runtime = Runtime(tools=[*tools(), translate], engine=engine, steps=steps, settings=RuntimeSettings(learn=False))
    try:
        await runtime.__aenter__()
    except EngineUnavailable as reason:
        pytest.skip(f"not proved here: programs on the {engine} engine ({reason})")
    try:
        yield runtime
    finally:
        await runtime.__aexit__(None, None, None)


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """The program's text, and the outcome that its last lines describe."""
    text, marker, rest = path.read_text().partition("# expect ")
    if not marker:
        text, marker, rest = text.partition("# limits: ")
    said = dict(_sections((marker + rest).splitlines()))
    stdout = said.get("stdout", "") or said.get("stdout without its last newline", "\n")[:-1]
    error = said.get("error", "")
    stderr = said.get("stderr", "") + error
    status = "failed" if error or "problem" in said else "rejected" if "rejected" in said else "finished"
    return text, {
        "status": status,
        "value": _value(said.get("value", "None")),
        "stdout": stdout,
        "stderr": stderr,
        "calls": int(said.get("calls", "0")),
        "problem": _problem(error, said.get("message", ""), text) or said.get("problem") or said.get("rejected"),
        "files": said.get("files", "").split(),
        "hints": said.get("hints", "").splitlines(),
        "limits": said.get("limits", "").split(),
    }


def _sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    name, value = "", ""
    for line in lines:
        heading = re.fullmatch(r"# (?:expect )?([a-z ]+):(?: (.*))?", line)
        if heading:
            if name:
                yield name, value
            name, value = heading[1], heading[2] or ""
        elif line.startswith("# |"):
            value += line[4:] + "\n"
    if name:
        yield name, value


def _value(text: str) -> Any:
    # The only names in the corpus's values are these; a literal needs none of them.
    return eval(text, {"__builtins__": {}, "PICTURE": PICTURE})


def _problem(error: str, message: str, text: str) -> str | None:
    if not error:
        return None
    lines = re.findall(r'File "<program>", line (\d+), in ', error)
    line = int(lines[-1]) if lines else None
    source = text.splitlines()[line - 1].strip() if line else ""
    message = message.removesuffix("\n") or error.splitlines()[-1]
    return str(Problem(kind="exception", message=message, line=line, source=source))


def facts(outcome: Outcome) -> dict[str, Any]:
    """What is compared of an outcome."""
    return {
        "status": outcome.status,
        "value": outcome.value,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "calls": len(outcome.calls),
        "problem": _told(outcome.problem, outcome.status),
        "files": [file.name for file in outcome.files],
    }


def _told(problem: Problem | None, status: str) -> str | None:
    if problem is None:
        return None
    if problem.kind == "exception":
        return str(problem)
    # What is installed differs from engine to engine, and from machine to machine.
    message = problem.message.partition("; installed are ")[0]
    return f"line {problem.line}: {message}" if status == "rejected" else f"{problem.kind}: {message}"


# The tools that every program may call.

USERS = [
    {"id": "u1", "name": "Ada", "team": "core"},
    {"id": "u2", "name": "Bo", "team": "web"},
    {"id": "u3", "name": "Cy", "team": "core"},
]
PRICES = {"A": 10, "B": 20, "C": 30}
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
ANYTHING: dict[str, str] = {}


def translate(text: str, lang: str = None, count: int = 1, formal: bool = False) -> dict[str, Any]:  # type: ignore[assignment]  # noqa: RUF013
    """A function as people write them, whose types Python's usual rules apply to."""
    return {"text": text, "lang": lang, "count": count, "formal": formal}


def tools() -> list[Tool]:
    attempts = 0

    async def flaky(times: int) -> str:
        nonlocal attempts
        attempts += 1
        if attempts % times:
            raise RuntimeError("try later")
        return "done"

    async def price(ticker: str) -> Any:
        return {"ticker": ticker, "price": PRICES[ticker]}

    async def get_expenses(user_id: str, quarter: int = 1) -> Any:
        return [{"user": user_id, "amount": 10 * quarter}, {"user": user_id, "amount": 5}]

    async def fail(message: str) -> None:
        raise RuntimeError(message)

    async def slow(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def save_profile(profile: Any, overwrite: bool = False) -> Any:
        return {"profile": profile, "overwrite": overwrite}

    async def lookup(word: str, lang: str | None = None) -> Any:
        return {"word": word, "lang": lang}

    async def get(value: Any) -> Any:
        return value

    def answers(value: Any) -> Any:
        return lambda: get(value)

    return [
        _tool("get_users", answers(USERS), domain="hr"),
        _tool("get_expenses", get_expenses, domain="finance", required=("user_id",), user_id=TEXT, quarter=NUMBER),
        _tool("price", price, domain="finance", required=("ticker",), ticker=TEXT),
        _tool("add", lambda a, b=0: get(a + b), required=("a",), a=NUMBER, b=NUMBER),
        _tool("echo", get, required=("value",), value=ANYTHING),
        _tool("fail", fail, required=("message",), message=TEXT),
        _tool("flaky", flaky, required=("times",), times=NUMBER),
        _tool("slow", slow, required=("seconds",), seconds={"type": "number"}),
        _tool(
            "save_profile", save_profile, domain="hr", required=("profile",), profile={"type": "object"}, overwrite={}
        ),
        _tool("json_report", answers('{"rows": [1, 2]}')),
        _tool("take_picture", answers(PICTURE)),
        _tool("blob", answers(b"\x01\x02")),
        _tool("many_rows", lambda count: get([{"n": n} for n in range(count)]), required=("count",), count=NUMBER),
        _tool("get-weather", lambda city: get({"city": city, "celsius": 4}), required=("city",), city=TEXT),
        _tool("lookup", lookup, required=("word",), word=TEXT, lang=TEXT | {"default": None}),
        _tool("mcp__financial-data__query", lambda sql: get([{"sql": sql}]), required=("sql",), sql=TEXT),
    ]


def _tool(name: str, function: Any, *, domain: str = "", required: tuple[str, ...] = (), **parameters: Any) -> Tool:
    async def call(arguments: Mapping[str, Any]) -> Any:
        return await function(**arguments)

    schema = {"type": "object", "properties": parameters, "required": list(required), "additionalProperties": False}
    spec = ToolSpec(
        name=name, python_name=name.replace("-", "_"), domain=domain, description=f"{name}.", input_schema=schema
    )
    return Tool(spec=spec, call=call)
