"""What a model reads beside a program's output, so that its next program works: one set of sentences for all doors."""

from __future__ import annotations

from collections.abc import Iterator

from toolfold.models import Outcome


def lessons(outcome: Outcome) -> Iterator[str]:
    """Each is a part of its own, after the text that the door promises."""
    if outcome.stdout_cut_bytes:
        yield _rest_of_the_output(outcome)
    if outcome.shapes:
        shapes = "\n".join(outcome.shapes)
        yield shapes if outcome.status == "failed" else f"Nothing was printed. The last replies:\n{shapes}"


def _rest_of_the_output(outcome: Outcome) -> str:
    missing = outcome.stdout_cut_bytes - len(outcome.stdout_tail.encode())
    text = f"{missing:,} bytes of output are not shown. A program can read the whole: open({outcome.output_name!r})"
    return f"{text}. It ends with:\n{outcome.stdout_tail}" if outcome.stdout_tail.strip() else text
