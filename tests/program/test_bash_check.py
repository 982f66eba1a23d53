"""The static check of bash programs: it speaks of certain mistakes with their lines, and never against valid bash."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.programs.bash import tool
from toolfold import Limits, Problem, ToolSpec
from toolfold.models import Program
from toolfold.program import Checker

FOLDER = Path(__file__).parent / "bash"


def spec(name: str, required: str = "", **properties: Any) -> ToolSpec:
    return ToolSpec(
        name=name,
        python_name=name.replace("-", "_"),
        input_schema={"type": "object", "properties": properties, "required": required.split()},
    )


TEXT = {"type": "string"}
CHECKER = Checker(
    [
        spec("get_weather", "city", city=TEXT, days={"type": "integer"}),
        spec("list_users"),
        spec("send_mail", "to subject", to=TEXT, subject=TEXT, body=TEXT),
        spec("add", "a b", a={"type": "number"}, b={"type": "number"}),
        spec("echo_back", "text", text=TEXT),
        spec(
            "create-issue",
            "title",
            title=TEXT,
            labels={"type": "array", "items": TEXT},
            priority={"enum": ["low", "high"]},
            **{"user-id": TEXT},
        ),
    ]
)


def programs(name: str, folder: Path = FOLDER) -> list[Any]:
    _, *parts = re.split(r"^### (.+)\n", (folder / name).read_text("utf-8"), flags=re.MULTILINE)
    return [pytest.param(text, id=name) for name, text in zip(parts[::2], parts[1::2], strict=True)]


@pytest.mark.parametrize(
    "text", programs("valid.txt") + programs("held_out.txt") + programs("programs.txt", Path(tool.__file__).parent)
)
def test_valid_bash_is_never_rejected(text: str) -> None:
    assert CHECKER.check_bash(text) == Program(text=text, language="bash")


@pytest.mark.parametrize("mark", ["", "bash", "sh"])
def test_a_markdown_fence_around_a_program_is_left_out(mark: str) -> None:
    text = f"\n```{mark}\necho 1\n\necho 2\n```\n"

    program = CHECKER.check_bash(text)

    inside = "\n\necho 1\n\necho 2\n"
    assert program == Program(text=inside, sent=text, notes=("left out the Markdown fence",), language="bash")


@pytest.mark.parametrize("text", programs("mistakes.txt"))
def test_a_mistake_is_told_with_its_line_and_what_to_write(text: str) -> None:
    text, _, expected = text.rpartition("=> ")

    problem = CHECKER.check_bash(text)

    assert isinstance(problem, Problem)
    assert f"line {problem.line}: {problem.message}\n" == expected


@pytest.mark.parametrize(
    "text",
    [
        "$(" * 16_000,
        "$((" * 10_000,
        "((" * 16_000,
        "${a:-" * 6_000,
        "a <<x " * 5_000 + "\n",
        '"$(' * 10_000,
        "if " * 10_000,
        "`" * 32_001,
        "(a)" * 10_000 + "$((",
        'get_weather \'{"city":' + "[" * 5_000 + "'",
        'get_weather \'{"city":' + "[" * 300 + "]" * 300 + "}'",
        'get_weather \'{"days":' + "9" * 5_000 + "}' || true",
    ],
)
def test_a_hostile_text_is_left_to_bash(text: str) -> None:
    problem = CHECKER.check_bash(text)

    assert isinstance(problem, Program) or problem.kind in ("arguments", "wrong_type")


def test_a_text_that_is_too_large_or_no_text_is_refused() -> None:
    large = CHECKER.check_bash("echo " + "x" * 100, limits=Limits(program_bytes=50))
    null = CHECKER.check_bash("echo\0")

    assert isinstance(large, Problem)
    assert isinstance(null, Problem)
    assert large.message == "the program is larger than 50 bytes; read data from files or tools instead"
    assert null.message == "the text holds a null character; write '\\0' inside a string"
