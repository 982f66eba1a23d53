"""What a model reads of each interface is pinned, with what it costs."""

import pytest

from tests.interfaces.model_texts import FOLDER, texts

LIMITS = {
    "mcp": 262, "mcp_yielding": 317, "mcp_contract": 265, "mcp_contract_yielding": 320, "frameworks": 206,
    "pydantic_ai": 308, "callback": 530, "gem": 660,
}  # fmt: skip
"""Tokens of the fixed text of each interface, as they were when somebody last decided on them."""
ALLOWED_GROWTH = 1.05


@pytest.mark.parametrize("interface", LIMITS)
def test_the_text_of_an_interface_is_the_one_on_file(interface: str) -> None:
    on_file = (FOLDER / f"{interface}.txt").read_text(encoding="utf-8")

    assert on_file.partition("\n\n")[2] == f"{texts()[interface]}\n", "run: python -m tests.interfaces.model_texts"


@pytest.mark.parametrize("interface", LIMITS)
def test_the_text_of_an_interface_does_not_grow_unnoticed(interface: str) -> None:
    tokens = int((FOLDER / f"{interface}.txt").read_text(encoding="utf-8").partition(" ")[0])

    assert tokens <= LIMITS[interface] * ALLOWED_GROWTH


@pytest.mark.parametrize("interface", LIMITS)
def test_the_tokens_on_file_belong_to_the_text(interface: str) -> None:
    """No tokenizer is here; a token of these texts has between 3 and 6 characters."""
    tokens = int((FOLDER / f"{interface}.txt").read_text(encoding="utf-8").partition(" ")[0])

    assert 3 <= len(texts()[interface]) / tokens <= 6


def test_every_interface_has_its_limit() -> None:
    assert sorted(texts()) == sorted(LIMITS)


@pytest.mark.parametrize("interface", [interface for interface in LIMITS if interface.startswith("mcp")])
def test_all_fixed_text_of_the_mcp_interface_takes_320_tokens_at_most(interface: str) -> None:
    tokens = int((FOLDER / f"{interface}.txt").read_text(encoding="utf-8").partition(" ")[0])

    assert tokens <= 320
