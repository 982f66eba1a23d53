from inline_snapshot import snapshot

from toolfold import CallRecord
from toolfold.interfaces.cli.outcome_output import call_line


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
