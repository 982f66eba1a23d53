"""Saving a program that worked: parameters from literals, its file, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.saved.support import TEXT, Tools, opened, ran, saved
from toolfold import programs
from toolfold.errors import UsageError
from toolfold.models import Media
from toolfold.programs.parameters import propose_parameters
from toolfold.sources.function_tools import as_tool


async def test_a_saved_program_is_a_tool_with_the_literal_as_its_parameter(tmp_path: Path) -> None:
    tools = Tools()
    async with opened(tmp_path, tools.all()) as runtime:
        program = await saved(runtime, parameters={"month": 3}, description="Total of a month.")
        tools.calls.clear()
        outcome = await ran(runtime, "await programs.report(month=4)")
        found = await ran(runtime, "(await search_tools('total of a month', limit=1))[0]['signature']")

    assert (program.version, program.is_edited, program.parameters) == (
        1, False, {"month": {"type": "integer", "examples": [3]}},
    )  # fmt: skip
    assert program.text == TEXT.replace("month = 3", "month = month")
    assert (outcome.value, tools.calls) == ({"total": 45}, [("expenses", 4), ("note", "2 rows")])
    assert [(call.name, call.line, call.within) for call in outcome.calls] == [
        ("report", 1, 0), ("expenses", 2, 1), ("note", 3, 1),
    ]  # fmt: skip
    assert found.value == (
        "class ReportReply(TypedDict):\n    total: int\n\n"
        'async def report(*, month: int) -> ReportReply:\n    """Total of a month."""\n'
    )


async def test_the_file_can_be_read_and_the_record_has_every_call(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        await saved(runtime, parameters=["department"])

    content = (tmp_path / "programs" / "report.py").read_text()
    record = json.loads((tmp_path / "programs" / "report.record.json").read_text())
    assert re.sub(r'"[0-9a-f]{32}"', '"#"', content) == (
        "# A saved program of toolfold; 'toolfold programs --help' says what to do with it.\n"
        '# description: ""\n'
        "# version: 1\n"
        '# parameters: {"department": {"type": "string", "examples": ["sales"]}}\n'
        '# returns: {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}\n'
        '# tools: {"expenses": {"schema": "#", "read_only": false}, "note": {"schema": "#", "read_only": false}}\n'
        "# presets: []\n"
        '# libraries: "bare"\n'
        '# record: "#"\n'
        '# proof: "#"\n'
        "\n" + TEXT.replace('"sales"', "department")
    )
    assert [(call["tool"], call["arguments"], call.get("value")) for call in record["calls"]] == [
        ("expenses", {"month": 3, "department": "sales"}, [{"who": "sales", "amount": 30}, {"who": "b", "amount": 5}]),
        ("note", {"text": "2 rows"}, None),
    ]
    assert (record["value"], record["arguments"]) == ({"total": 35}, {"department": "sales"})


async def test_literals_that_were_passed_to_tools_are_proposed_with_the_types_of_the_tools() -> None:
    specs = [tool.spec for tool in Tools().all()]
    text = 'limit = 9\na = await expenses(3, "é")\nb = tools.expenses({"month": 4, "department": "x"})\nnote(text=str(limit))'

    proposals = propose_parameters(text, specs)

    assert [(item.name, item.value, item.line, item.schema) for item in proposals] == [
        ("month", 3, 2, {"type": "integer"}),
        ("department", "é", 2, {"type": "string"}),
        ("month", 4, 3, {"type": "integer"}),
        ("department", "x", 3, {"type": "string"}),
    ]


async def test_a_program_is_saved_again_as_the_next_version_and_the_former_one_stays(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        await saved(runtime)
        second = await saved(runtime, parameters=["month"])
        library = runtime.catalog.programs
        assert isinstance(library, programs.ProgramLibrary)
        diff = library.diff("report")

    assert second.version == 2
    assert sorted(path.name for path in (tmp_path / "programs").iterdir()) == [
        "report.py", "report.record.json", "report.v1.py", "report.v1.record.json",
    ]  # fmt: skip
    assert [line for line in diff.split("\n") if line[:1] in "+-" and line] == [
        "--- report version 1", "+++ report version 2",
        "-month = 3",
        '+# month: {"type":"integer","examples":[3]}', "+month = month",
    ]  # fmt: skip


async def test_a_program_that_calls_a_saved_one_is_saved_and_tested_too(tmp_path: Path) -> None:
    tools = Tools()
    async with opened(tmp_path, tools.all()) as runtime:
        await saved(runtime, parameters=["month"])
        await saved(runtime, "twice", "2 * (await programs.report(month=5))['total']", parameters={"month": 5})
        tools.calls.clear()
        verdicts = await programs.verify(runtime)
        counted = len(tools.calls)
        outcome = await ran(runtime, "await twice(month=1)")

    assert (verdicts, counted) == (
        [programs.Verdict(name="report", version=1), programs.Verdict(name="twice", version=1)], 0,
    )  # fmt: skip
    assert (outcome.value, [call.within for call in outcome.calls]) == (30, [0, 1, 2, 2])


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("Report", [], "a saved program needs a name such as monthly_report, in small letters; got 'Report'"),
        ("../x", [], "a saved program needs a name such as monthly_report, in small letters; got '../x'"),
        ("note", [], "'note' is the name of a tool; choose another name"),
        ("print", [], "programs have another 'print' already; choose another name"),
        ("ok", ["year"], "no literal that was passed to a tool is called 'year'; there are month=3, department='sales'"),
        ("ok", {"year": 2026}, "parameter 'year': the program has no literal 2026; there are month=3, department='sales'"),
        ("ok", {"rows": 3}, "parameter 'rows' is also set on line 2 of the program; choose another name"),
        ("ok", {"a-b": 3}, "'a-b' cannot be the name of a parameter; choose another"),
    ],
)  # fmt: skip
async def test_what_cannot_be_saved_is_refused_with_the_reason(
    tmp_path: Path, name: str, parameters: Any, message: str
) -> None:
    async with opened(tmp_path) as runtime:
        with pytest.raises(UsageError) as caught:
            await saved(runtime, name, parameters=parameters)

    assert str(caught.value) == message
    assert not (tmp_path / "programs").exists()


async def test_only_a_program_on_record_that_finished_can_be_saved(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        failed = await runtime.run("await expenses(month=1, department='x')\n1 / 0")
        await runtime.call("note", {"text": "x"})
        direct = (await runtime.executions.ledger.list(limit=1))[0].execution_id
        reasons = []
        for execution_id in (failed.execution_id, direct, "feed"):
            with pytest.raises(UsageError) as caught:
                await programs.save(runtime, execution_id, "report")
            reasons.append(str(caught.value).replace(failed.execution_id, "F").replace(direct, "D"))

    assert reasons == [
        "execution 'F' is failed; only a program that finished can be saved",
        "execution 'D' is one direct call; only a Python program can be saved",
        "no execution 'feed' in the ledger; it was cancelled or never existed",
    ]


async def test_a_program_that_does_something_else_each_time_is_refused_with_the_difference(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        with pytest.raises(UsageError) as caught:
            await saved(runtime, text="import os\nawait note(text=os.urandom(4).hex())")

    assert re.sub(r"'[0-9a-f]{8}'", "X", str(caught.value)) == (
        "'report' was not saved: called with {}, it differs from its record: it ends as failed: ToolError: "
        "'report' failed: 'note' is not on record with these arguments (at its line 2); "
        "it does not call note(text=X) any more, which is call 1 of its record"
    )


async def test_a_reply_with_a_file_has_no_record_that_a_person_can_read(tmp_path: Path) -> None:
    async def photo() -> Media:
        """A photo."""
        return Media(kind="image", mime="image/png", data=b"x")

    async with opened(tmp_path, [as_tool(photo)]) as runtime:
        with pytest.raises(UsageError, match="call 1 of 'photo' has a file or bytes"):
            await saved(runtime, text="await photo()\n1")


SECRETS = {
    "a key in a literal": ("await note(text='sk-abcdefghijklmnopqrstuvwxyz')", "line 1 has an API key of OpenAI or Anthropic"),
    "a value of the environment": ("await note(text='on ' + 'hunter2-hunter2')", "line 1 has a secret of the config or environment"),
    "a key in a comment": ("1\n# ghp_abcdefghijklmnopqrstuvwxyz0123456789\nawait note(text='a')", "line 2 has a token of GitHub"),
    "a key that is put together": ("await note(text='xox' + 'b-9182736450')", "call 1 of note has a token of Slack"),
    "an argument that is called like a secret": ("await login(api_token='abc')", "call 1 of login, api_token has an argument that is marked secret"),
    "a reply": ("await tokens()\n1", "the reply to call 1 of tokens has a JSON web token"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "place"), SECRETS.values(), ids=SECRETS)
async def test_a_program_with_a_secret_is_refused_with_the_place_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, place: str
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2-hunter2")

    async def login(api_token: str) -> bool:
        """Log in."""
        return True

    async def tokens() -> list[str]:
        """Tokens."""
        return ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc"]

    async with opened(tmp_path, [*Tools().all(), as_tool(login), as_tool(tokens)]) as runtime:
        with pytest.raises(UsageError) as caught:
            await saved(runtime, text=text)

    assert str(caught.value) == f"not saved: {place}; let the tool or its config hold it, and run the program anew"
    assert not (tmp_path / "programs").exists()
