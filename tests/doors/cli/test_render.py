from inline_snapshot import snapshot

from toolfold import CallRecord, File, Media, Outcome, Problem
from toolfold.doors.cli.render import as_json, call_line


def test_an_outcome_becomes_one_json_object_with_every_field() -> None:
    outcome = Outcome(
        execution_id="e1",
        status="failed",
        value={"blob": b"\xff", "picture": Media(kind="image", mime="image/png", data=b"p"), "nan": float("nan")},
        stdout="out\n",
        stderr="err\n",
        stdout_cut_bytes=3,
        problem=Problem(kind="exception", message="ValueError: x", line=2, column=1, source="raise"),
        calls=(
            CallRecord(id=1, name="price", arguments={"ticker": "A"}, line=4, seconds=0.5, bytes_in=14, bytes_out=3),
        ),
        files=(File(name="a.csv", data=b"12", mime="text/csv"),),
        engine="process",
        isolation="namespace",
        seconds=1.5,
        hints=("one call only",),
    )

    assert as_json(outcome) == snapshot(
        {
            "execution_id": "e1",
            "status": "failed",
            "value": {
                "blob": {"base64": "/w=="},
                "picture": {
                    "kind": "image",
                    "mime": "image/png",
                    "uri": "",
                    "name": "",
                    "data": {"base64": "cA=="},
                },
                "nan": None,
            },
            "stdout": "out\n",
            "stderr": "err\n",
            "stdout_cut_bytes": 3,
            "stderr_cut_bytes": 0,
            "problem": {"kind": "exception", "message": "ValueError: x", "line": 2, "column": 1, "source": "raise"},
            "calls": [
                {
                    "id": 1,
                    "name": "price",
                    "line": 4,
                    "arguments": {"ticker": "A"},
                    "started_seconds": 0.0,
                    "seconds": 0.5,
                    "error": None,
                    "bytes_in": 14,
                    "bytes_out": 3,
                    "attempts": 1,
                    "cached": False,
                    "breaker": "",
                    "from_record": False,
                }
            ],
            "files": [{"name": "a.csv", "mime": "text/csv", "size": 2}],
            "engine": "process",
            "isolation": "namespace",
            "seconds": 1.5,
            "context_saved": {
                "tokens": 0,
                "bytes": 0,
                "method": "all calls and replies once, as in one parallel request, less program and output; "
                "4 bytes are 1 token",
            },
            "hints": ["one call only"],
        }
    )


def test_a_live_line_shows_a_call_and_no_control_character_of_the_program() -> None:
    good = CallRecord(id=7, name="get", arguments={"q": "\x1b[2J", "n": 1}, seconds=0.0123, bytes_out=420)
    bad = CallRecord(id=8, name="get", arguments={"q": "x" * 100}, seconds=2.0, error="no\nmore")

    assert [call_line(good), call_line(bad)] == snapshot(
        [
            "     7  get(q='\\x1b[2J', n=1)  12 ms  420 bytes",
            "     8  get(q='xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…)  2000 ms  failed: 'no\\nmore'",
        ]
    )


def test_names_of_arguments_are_as_harmless_in_a_terminal_as_values() -> None:
    record = CallRecord(id=1, name="a\x1b[2J", arguments={"x\r\u202e\x1b[31m\n": "\x1b[31m"}, seconds=0.5, bytes_out=3)

    assert call_line(record) == (r"     1  a\x1b[2J(x\r\u202e\x1b[31m\n='\x1b[31m')  500 ms  3 bytes")
