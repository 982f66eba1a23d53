"""Ways in which a program can end, as a model reads them; `test_every_status` has one of each."""

import pytest

from toolfold.interfaces.frameworks.program_tool import Image, ModelAnswer, render_outcome
from toolfold.models import File, Media, Outcome, Problem

TRACEBACK = 'Traceback (most recent call last):\n  File "<program>", line 1, in __main__\n    f()\nValueError: no'

ENDINGS = [
    (Outcome(execution_id="1", status="finished"), ModelAnswer(text="(no output)")),
    (Outcome(execution_id="1", status="finished", stdout="hello\n"), ModelAnswer(text="hello")),
    (Outcome(execution_id="1", status="finished", value={"a": [1, None]}), ModelAnswer(text='{"a": [1, null]}')),
    (Outcome(execution_id="1", status="finished", value="as it is"), ModelAnswer(text="as it is")),
    (Outcome(execution_id="1", status="finished", value=b"12345"), ModelAnswer(text='"<5 bytes>"')),
    (Outcome(execution_id="1", status="finished", stdout="a\n", value=0), ModelAnswer(text="a\nValue: 0")),
    (
        Outcome(execution_id="1", status="finished", stdout="a" * 5, stdout_cut_bytes=9),
        ModelAnswer(
            text="aaaaa\n... (truncated)\n"
            "9 bytes of output are not shown. A program can read the whole: open('output-1.txt')"
        ),
    ),
    (
        Outcome(
            execution_id="1",
            status="finished",
            stdout="drawn\n",
            value=[Media(kind="image", mime="image/gif", data=b"gif")],
            files=(File(name="a.png", data=b"png", mime="image/png"), File(name="b.csv", data=b"1", mime="text/csv")),
        ),
        ModelAnswer(
            text='drawn\nValue: ["<image image/gif>"]\nFile: a.png (image/png, 3 bytes)\nFile: b.csv (text/csv, 1 bytes)',
            images=(Image(mime="image/gif", base64="Z2lm"), Image(mime="image/png", base64="cG5n")),
        ),
    ),
    (
        Outcome(
            execution_id="1",
            status="failed",
            stdout="half\n",
            stderr=TRACEBACK + "\n",
            problem=Problem(kind="exception", message="ValueError: no", line=1),
        ),
        ModelAnswer(text=f"{TRACEBACK}\nOutput before that:\nhalf", has_failed=True),
    ),
    (
        Outcome(execution_id="1", status="limit", stderr="warn\n", problem=Problem(kind="calls", message="1000 calls")),
        ModelAnswer(text="warn\n1000 calls", has_failed=True),
    ),
]


@pytest.mark.parametrize(("outcome", "shown"), ENDINGS)
def test_an_outcome_reads_like_this(outcome: Outcome, shown: ModelAnswer) -> None:
    assert render_outcome(outcome) == shown


def test_a_large_value_is_cut() -> None:
    shown = render_outcome(Outcome(execution_id="1", status="finished", value="x" * 100_000))

    assert shown == ModelAnswer(text="x" * 65536 + "\n... (truncated)")
