"""What a model reads of each door is pinned, with what it costs."""

import pytest

from tests.interfaces.model_texts import FOLDER, texts

LIMITS = {
    "mcp": 262, "mcp_yielding": 317, "mcp_contract": 265, "mcp_contract_yielding": 320, "frameworks": 206,
    "pydantic_ai": 308, "callback": 530, "gem": 660,
}  # fmt: skip
"""Tokens of the fixed text of each door, as they were when somebody last decided on them."""
ALLOWED_GROWTH = 1.05


@pytest.mark.parametrize("door", LIMITS)
def test_the_text_of_a_door_is_the_one_on_file(door: str) -> None:
    on_file = (FOLDER / f"{door}.txt").read_text(encoding="utf-8")

    assert on_file.partition("\n\n")[2] == f"{texts()[door]}\n", "run: python -m tests.interfaces.model_texts"


@pytest.mark.parametrize("door", LIMITS)
def test_the_text_of_a_door_does_not_grow_unnoticed(door: str) -> None:
    tokens = int((FOLDER / f"{door}.txt").read_text(encoding="utf-8").partition(" ")[0])

    assert tokens <= LIMITS[door] * ALLOWED_GROWTH


@pytest.mark.parametrize("door", LIMITS)
def test_the_tokens_on_file_belong_to_the_text(door: str) -> None:
    """No tokenizer is here; a token of these texts has between 3 and 6 characters."""
    tokens = int((FOLDER / f"{door}.txt").read_text(encoding="utf-8").partition(" ")[0])

    assert 3 <= len(texts()[door]) / tokens <= 6


def test_every_door_has_its_limit() -> None:
    assert sorted(texts()) == sorted(LIMITS)


@pytest.mark.parametrize("door", [door for door in LIMITS if door.startswith("mcp")])
def test_all_fixed_text_of_the_mcp_door_takes_320_tokens_at_most(door: str) -> None:
    tokens = int((FOLDER / f"{door}.txt").read_text(encoding="utf-8").partition(" ")[0])

    assert tokens <= 320
