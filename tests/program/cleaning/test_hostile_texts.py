"""Texts that are made to keep the cleaner busy: each is answered, and twice with the same words."""

import random

import pytest

from toolfold.program import check

MEGABYTE = 1_000_000
PARTS = [
    "```", "```python\n", "\n```\n", "~~~", "<execute>", "</execute>", "<code>", "&lt;", "&quot;", "“", "”", "‘", "'",
    '"', '"""', "'''", "\\", "\\n", '\\"', ">>> ", "... ", "%", "%%x\n", "!pip install ", "\n", " ", "\t", "#", "(",
    "x = 1\n", "print(", "<|a|>", "</s>", "<think>", "</think>\n", "<![CDATA[", "]]>", '<invoke name="a">',
    '<parameter name="code">', "</parameter>", "[TOOL_CALLS]", "```python\nx = 1\n```\n", "[", '"x(1)\\n',
    '{"code": ', "\u00a0", "\u200b", "if", ":",
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.long
def test_a_megabyte_of_the_same_is_answered(part: str) -> None:
    text = (part * (MEGABYTE // len(part)))[: MEGABYTE // 2]

    assert check(text) == check(text)


@pytest.mark.parametrize(
    "part", ["`" * 3 + " " * 400_000 + "`", "<code" + " " * 400_000, " " * 400_000 + "`", "%" + " " * 400_000 + "\n)"]
)
@pytest.mark.long
def test_a_long_line_is_read_once(part: str) -> None:
    assert check(part) == check(part)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.long
def test_a_random_mixture_is_answered_the_same_every_time(seed: int) -> None:
    text = "".join(random.Random(seed).choices(PARTS, k=4000))

    assert check(text) == check(text)
