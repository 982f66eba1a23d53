"""Python people's habits: an outcome as values, as JSON and in a notebook; a ledger by its path; `run_sync` anywhere."""

import json
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

import toolfold
from toolfold import CallRecord, File, Media, Outcome, Problem, Runtime, UsageError, run_sync
from toolfold.ledger.ledger_factory import open_ledger
from toolfold.outcome_views import CALL_FIELDS

PNG = b"\x89PNG\r\n\x1a\n"


def test_an_outcome_is_plain_values_and_json() -> None:
    outcome = Outcome(
        execution_id="a1",
        status="failed",
        value={"raw": b"\xff", "nan": float("nan"), "pair": (1, 2)},
        stdout="é\n",
        problem=Problem(kind="exception", message="ValueError: no", line=2),
        calls=(CallRecord(id=1, name="price", arguments={"ticker": "A"}, seconds=0.5, line=2),),
        files=(File(name="a.txt", data=b"12", mime="text/plain"),),
    )

    assert json.loads(outcome.to_json()) == outcome.to_dict()
    assert outcome.to_dict() == snapshot(
        {
            "execution_id": "a1",
            "status": "failed",
            "value": {"raw": {"base64": "/w=="}, "nan": None, "pair": [1, 2]},
            "stdout": "é\n",
            "stderr": "",
            "stdout_cut_bytes": 0,
            "stderr_cut_bytes": 0,
            "problem": {"kind": "exception", "message": "ValueError: no", "line": 2, "column": None, "source": ""},
            "calls": [
                {
                    "id": 1,
                    "name": "price",
                    "line": 2,
                    "within": 0,
                    "arguments": {"ticker": "A"},
                    "started_seconds": 0.0,
                    "seconds": 0.5,
                    "error": None,
                    "bytes_in": 0,
                    "bytes_out": 0,
                    "attempts": 1,
                    "cached": False,
                    "breaker": "",
                    "from_record": False,
                }
            ],
            "files": [{"name": "a.txt", "mime": "text/plain", "size": 2}],
            "engine": "",
            "isolation": "",
            "seconds": 0.0,
            "context_saved": {
                "tokens": 0,
                "bytes": 0,
                "method": "all calls and replies once, as in one parallel request, less program and output; 4 bytes are 1 token",
            },
            "hints": [],
            "unmade_calls": [],
        }
    )


def test_all_that_is_known_of_a_call_is_told_but_what_only_people_at_the_ledger_may_read() -> None:
    assert set(CallRecord.__struct_fields__) - set(CALL_FIELDS) == {"used_arguments", "traceback"}


def test_the_page_of_the_command_line_lists_what_is_told_of_a_call() -> None:
    page = (Path(__file__).parents[1] / "docs" / "cli.md").read_text(encoding="utf-8")
    table = page.partition("each entry of `calls` has:")[2].partition("\n\nBytes are")[0]

    keys = [key for row in table.splitlines() for key in re.findall(r"`(\w+)`", row.split(" | ")[0])]

    assert keys == list(CALL_FIELDS)


def test_a_notebook_is_shown_output_value_pictures_problem_and_calls_without_markup_of_the_program() -> None:
    calls = tuple(
        CallRecord(
            id=n, name="price", arguments={"t": "<b>"}, started_seconds=n, seconds=1.0, error="no" if n else None
        )
        for n in range(2)
    )
    outcome = Outcome(
        execution_id="a1", status="failed", stdout="<script>alert(1)</script>", calls=calls,
        value=[Media(kind="image", mime="image/png", data=PNG), {"x": 1}],
        problem=Problem(kind="exception", message="ValueError: <i>", line=2, source="x = 1"),
        files=(File(name="a.svg", data=b"<svg onload=alert(1)>", mime="image/svg+xml"),),
    )  # fmt: skip

    page = outcome._repr_html_()

    assert page == snapshot("""\
<div style="font-family:sans-serif;font-size:13px"><div><b style="color:#cf222e">failed</b> in 0.000 s, 2 calls <code>a1</code></div><pre style="margin:0;padding:4px 0;white-space:pre-wrap;text-align:left;color:#cf222e">line 2: ValueError: &lt;i&gt;
x = 1</pre><div><i>output</i></div><pre style="margin:0;padding:4px 0;white-space:pre-wrap;text-align:left;color:inherit">&lt;script&gt;alert(1)&lt;/script&gt;</pre><div><i>value</i></div><pre style="margin:0;padding:4px 0;white-space:pre-wrap;text-align:left;color:inherit">[
 &quot;&lt;image image/png&gt;&quot;,
 {
  &quot;x&quot;: 1
 }
]</pre><img style="max-width:100%" src="data:image/png;base64,iVBORw0KGgo="><div><i>calls</i></div><table style="width:100%"><tr title="price(t=&#x27;&lt;b&gt;&#x27;)"><td style="text-align:left">price</td><td>1000 ms</td><td style="width:60%"><div style="margin-left:0.0%;width:50.0%;height:8px;background:#1a7f37"></div></td></tr><tr title="price(t=&#x27;&lt;b&gt;&#x27;)"><td style="text-align:left">price</td><td>1000 ms</td><td style="width:60%"><div style="margin-left:50.0%;width:50.0%;height:8px;background:#cf222e"></div></td></tr></table></div>\
""")
    assert [tag for tag in ("<script", "<svg", "<b>", "<i>V", "onload=alert(1)>") if tag in page] == []


@pytest.mark.parametrize("ending", ["plt.show()", "figure", ""], ids=["show", "last value", "left open"])
def test_a_figure_is_a_picture_in_the_page(ending: str) -> None:
    pytest.importorskip("matplotlib")
    text = f"import matplotlib.pyplot as plt\nfigure = plt.figure()\nplt.plot([1, 2])\n{ending}"

    outcome = run_sync(text)

    assert outcome.problem is None
    assert outcome._repr_html_().count('src="data:image/png;base64,') == 1


async def test_run_sync_works_where_a_loop_runs_already() -> None:
    assert run_sync("1 + 1").value == 2


async def test_a_ledger_may_be_named_by_its_path(tmp_path: Path) -> None:
    for where in (tmp_path / "x.sqlite", str(tmp_path / "x.sqlite")):
        async with Runtime(ledger=where) as runtime:
            await runtime.run("1")
    ledger = open_ledger(str(tmp_path / "x.sqlite"))

    assert [one.status for one in await ledger.list()] == ["finished", "finished"]
    await ledger.close()


def price(ticker: str) -> float:
    """The price."""
    return 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tools": price}, "tools=...) takes a list of functions or Tool objects, as in tools=[price]; got function"),
        ({"tools": "price"}, "tools=...) takes a list of functions or Tool objects, as in tools=[price]; got str 'price'"),
        ({"engine": 3}, "engine=...) takes a name such as 'auto', or an Engine; got int 3"),
        ({"limits": {"calls": 1}}, "limits=...) takes toolfold.Limits(...), as in limits=Limits(wall_seconds=10); got dict"),
        ({"policy": ["x"]}, "policy=...) takes a Policy, as in policy=Policy(block=['delete_*']); got list ['x']"),
        ({"approve": True}, "approve=...) takes a function of a call that returns a Decision; got bool True"),
        ({"ledger": 1}, "ledger=...) takes a path such as 'runs.sqlite', an address, or an open ledger; got int 1"),
        ({"listeners": 1}, "listeners=...) takes a list of listeners; got int 1"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_one_clear_line(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as error:
        toolfold.Runtime(**arguments)  # type: ignore[arg-type]  # on purpose

    assert str(error.value).startswith(f"Runtime({said}")
    assert "\n" not in str(error.value)


def test_pictures_and_files_are_short_in_a_repr() -> None:
    outcome = Outcome(
        execution_id="a1",
        status="finished",
        value=[Media(kind="image", mime="image/png", data=PNG * 2400), Media(kind="link", mime="", uri="https://a.b")],
        files=(File(name="plot.png", data=PNG, mime="image/png"),),
    )

    assert repr(outcome.value) == "[Media(image/png, 19 KB), Media(https://a.b)]"
    assert repr(outcome.files) == "(File(plot.png, image/png, 8 bytes),)"
    assert "PNG" not in repr(outcome)


async def test_a_runtime_that_is_not_open_says_how_to_open_it_and_open_does() -> None:
    runtime = Runtime([price])

    with pytest.raises(toolfold.EngineUnavailable) as refused:
        await runtime.run("1")
    opened = await runtime.open()
    outcome = await opened.run("await price('A')")
    await runtime.close()

    assert str(refused.value) == (
        "the runtime is not open; write 'async with Runtime(...) as runtime:' or 'await runtime.open()'"
    )
    assert (opened is runtime, outcome.value) == (True, 1.0)


def test_run_sync_takes_tools_by_position() -> None:
    assert run_sync("await price('A')", [price]).value == 1.0


def test_a_program_that_is_no_text_is_one_clear_line() -> None:
    with pytest.raises(UsageError) as wrong:
        run_sync(5)  # type: ignore[arg-type]  # what is tested

    assert str(wrong.value) == "a program is text, as in run('print(1)'); got int 5"


@pytest.mark.parametrize(
    ("keyword", "said"),
    [
        ("timeout", "Runtime takes no 'timeout'; write limits=Limits(wall_seconds=...)"),
        ("calls", "Runtime takes no 'calls'; write limits=Limits(calls=...)"),
        ("config", "Runtime takes no 'config'; write toolfold.from_config(path)"),
        ("ledgr", "Runtime takes no 'ledgr'; did you mean 'ledger'?"),
        ("quux", "Runtime takes no 'quux'"),
        ("learn", "Runtime takes no 'learn'; write settings=RuntimeSettings(learn=...)"),
        ("isolation", "Runtime takes no 'isolation'; write engine_options={'isolation': ...}"),
        ("observer", "Runtime takes no 'observer'; write listeners=[...]"),
    ],
)
def test_a_keyword_that_a_runtime_does_not_have_is_told_with_the_right_one(keyword: str, said: str) -> None:
    with pytest.raises(UsageError) as wrong:
        Runtime(**{keyword: 5})

    assert str(wrong.value) == said
