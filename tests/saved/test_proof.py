"""Tests of saved programs against their records: each change is found, and no tool is called."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.saved.support import Tools, opened, ran, saved
from toolfold import programs
from toolfold.errors import UsageError
from toolfold.sources.function_tools import as_tool, tool
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Tool


async def renamed(monat: int, department: str) -> list[dict[str, Any]]:
    """Expenses of a month."""
    raise AssertionError("it must not be called")


def with_a_renamed_key(tools: list[Tool]) -> list[Tool]:
    return [as_tool(tool(name="expenses")(renamed)), tools[1]]


def without_a_tool(tools: list[Tool]) -> list[Tool]:
    return tools[:1]


def edit(file: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "programs" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


REDO = "'toolfold programs test report --rerecord' proves it anew"
CHANGES: dict[str, tuple[Any, list[str]]] = {
    "nothing": (None, []),
    "a renamed key": (
        with_a_renamed_key,
        [f"the schema of 'expenses' has changed since its record; {REDO}",
         "call 1 does not fit any more: 'expenses' got a bad argument: monat is missing (and 1 more); "
         "change the program, then --rerecord"],
    ),
    "a tool that is gone": (
        without_a_tool, ["its tool 'note' is not there; connect its server, or save the program anew"]
    ),
    "an edited body": (
        edit("report.py", 'rows")', 'lines")'),
        [f"it was edited since its record; {REDO}",
         "it ends as failed: ToolError: 'report' failed: 'note' is not on record with these arguments (at its line 3)",
         "it does not call note(text='2 rows') any more, which is call 2 of its record",
         "it calls note(text='2 lines'), which is not on record"],

    ),
    "an edited value": (
        edit("report.py", '{"total": sum', '{"sum": sum'),
        [f"it was edited since its record; {REDO}", "its value is {'sum': 35}; on record is {'total': 35}"],
    ),
    "an edited comment": (edit("report.py", "rows = ", "# here\nrows = "), [f"it was edited since its record; {REDO}"]),
    "a tampered header": (
        edit("report.py", '"type": "integer", "examples"', '"type": "string", "examples"'),
        [f"it was edited since its record; {REDO}",
         "it ends as failed: ToolError: 'report' got a bad argument: month must be a string, got 3",
         "it does not call expenses(month=3, department='sales') any more, which is call 1 of its record",
         "it does not call note(text='2 rows') any more, which is call 2 of its record"],

    ),
    "a tampered record": (
        edit("report.record.json", "30", "31"),
        ["its record was changed; restore it, or 'toolfold programs test report --rerecord'",
         "its value is {'total': 36}; on record is {'total': 35}"],
    ),
    "a record that is no JSON": (
        edit("report.record.json", "{", "", ),
        ["the record of saved program 'report' cannot be read: Expected `object`, got `str`; "
         "restore it, or save the program anew"],
    ),
    "a record that is gone": (
        lambda folder: (folder / "programs" / "report.record.json").unlink(),
        ["the record of saved program 'report' cannot be read: no such file or directory; "
         "restore it, or save the program anew"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "problems"), CHANGES.values(), ids=CHANGES)
async def test_a_test_finds_each_change_and_calls_no_tool(
    tmp_path: Path, change: Callable[[Any], Any] | None, problems: list[str]
) -> None:
    tools = Tools()
    async with opened(tmp_path, tools.all()) as runtime:
        await saved(runtime, parameters=["month"])
    tools.calls.clear()
    of_tools = change in (with_a_renamed_key, without_a_tool)
    if change is not None and not of_tools:
        change(tmp_path)

    async with opened(tmp_path, change(tools.all()) if change is not None and of_tools else tools.all()) as runtime:
        verdicts = await programs.verify(runtime)

    assert verdicts == [programs.Verdict(name="report", version=1, problems=tuple(problems))]
    assert tools.calls == []


async def test_an_edited_program_is_proved_anew_by_a_real_run(tmp_path: Path) -> None:
    tools = Tools()
    async with opened(tmp_path, tools.all()) as runtime:
        await saved(runtime, parameters=["month"])
        edit("report.py", '"total": sum', '"sum": sum')(tmp_path)
        tools.calls.clear()
        program = await programs.rerecord(runtime, "report")
        calls, verdicts = list(tools.calls), await programs.verify(runtime, ["report"])

    assert calls == [("expenses", 3), ("note", "2 rows")]
    assert (program.version, program.is_edited, verdicts[0].problems) == (2, False, ())
    assert program.returns == {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


async def test_live_calls_only_what_reads_and_says_whose_reply_has_another_shape(tmp_path: Path) -> None:
    calls: list[str] = []
    keys = ["name", "price"]

    async def item(id: int) -> dict[str, Any]:
        """An item."""
        calls.append("item")
        return dict.fromkeys(keys, "x")

    async def order(id: int) -> bool:
        """Order it."""
        calls.append("order")
        return True

    tools = [as_tool(tool(read_only=True)(item)), as_tool(order)]
    async with opened(tmp_path, tools) as runtime:
        await saved(runtime, text="await order(id=1)\n(await item(id=1))['name']")
        calls.clear()
        same = await programs.verify(runtime, live=True)
        keys[1] = "cost"
        changed = await programs.verify(runtime, live=True)

    assert (same[0].problems, calls) == ((), ["item", "item"])
    assert len(changed[0].problems) == 1
    assert changed[0].problems[0].startswith("call 2 of 'item' now replies with another shape: ")


async def test_programs_whose_tool_changed_are_named_in_the_log_before_anybody_calls_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as runtime:
        await saved(runtime)
        runtime.replace_tools(with_a_renamed_key(Tools().all()))
        offered = [spec.name for spec in runtime.tools if spec.source == "program"]

    assert offered == ["report"]
    assert [record.message for record in caplog.records if record.name == "toolfold.programs"] == [
        f"saved program 'report': the schema of 'expenses' has changed since its record; {REDO}"
    ]


@pytest.mark.parametrize(("withholds", "offered"), [(False, ["report"]), (True, [])])
async def test_what_nothing_proves_any_more_is_withheld_if_the_config_says_so(
    tmp_path: Path, withholds: bool, offered: list[str]
) -> None:
    async with opened(tmp_path, library={"withholds": withholds}) as runtime:
        await saved(runtime)
        edit("report.py", 'rows")', 'lines")')(tmp_path)
        runtime.replace_tools(Tools().all())

        assert [spec.name for spec in runtime.tools if spec.source == "program"] == offered


async def test_a_program_is_not_offered_to_a_caller_who_may_not_use_its_tools(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        await saved(runtime)
    async with opened(tmp_path, policy=Policy(block=["note"])) as runtime:
        blocked = await runtime.run("await report()")
    async with opened(tmp_path, policy=Policy(block=["other"])) as runtime:
        control = await runtime.run("await report()")
        hidden = await runtime.run("await report()", hidden=["note"])

    assert (blocked.status, hidden.status, control.value) == ("rejected", "rejected", {"total": 35})


async def test_a_file_without_a_header_is_no_program_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "mine.py").write_text("print(1)\n")

    async with opened(tmp_path) as runtime:
        outcome = await ran(runtime, "1")

    assert outcome.value == 1
    assert [record.message for record in caplog.records if record.name == "toolfold.programs"][:1] == [
        "saved program 'mine' has a header that cannot be read: Object missing required field `parameters`; "
        "restore the file, or save the program anew"
    ]


async def test_a_library_without_a_folder_and_a_runtime_without_a_library_say_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a library of programs needs a folder"):
        programs.ProgramLibrary()
    async with opened(tmp_path) as runtime:
        runtime.catalog.programs = None
        with pytest.raises(UsageError, match="no folder for saved programs; name one in the config"):
            await programs.verify(runtime)
