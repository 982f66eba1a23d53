"""The log of direct calls, and what it leaves out."""

import logging

import pytest

import toolfold
from toolfold.models import Call
from toolfold.sources.function_tools import as_tool
from toolfold.tools.catalog import Catalog
from toolfold.tools.error_text import error_for_log
from toolfold.tools.router import Router


@toolfold.tool(retry="never")
async def login(password: str) -> str:
    """Lets in."""
    if password != "right":
        raise ValueError(f"no user with {password!r}")
    return "in"


async def test_a_direct_call_has_a_line_and_a_failed_one_its_error(caplog: pytest.LogCaptureFixture) -> None:
    router = Router(Catalog([as_tool(login)]))

    with caplog.at_level(logging.DEBUG, "toolfold.calls"):
        for password in ("right", "hunter2"):
            await router.serve(Call(id=0, tool="login", arguments={"password": password}), caller="direct")
            await router.serve(Call(id=1, tool="login", arguments={"password": password}))

    assert [_without_time(line) for line in caplog.messages] == [
        "direct call login(20 bytes) ms, 4 bytes",
        "direct call login(22 bytes) ms, failed: \"'login' failed: no user with '***'\"",
    ]


def test_texts_of_the_arguments_are_hidden_wherever_they_stand() -> None:
    arguments = {"a": ["secret", {"b": "secret word"}], "n": 7, "x": "no"}

    assert error_for_log("secret word, no secret\n7", arguments) == "'***, no ***\\n7'"
    assert len(error_for_log("x" * 5000, {})) == 500


def _without_time(line: str) -> str:
    words = line.split(" ")
    return " ".join(words[:4] + words[5:])
