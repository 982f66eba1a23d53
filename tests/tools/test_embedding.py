from __future__ import annotations

import logging
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from inline_snapshot import snapshot

from toolfold import Runtime
from toolfold.config.build import runtime_settings
from toolfold.config.loader import load_config
from toolfold.errors import UsageError
from toolfold.models import ToolSpec
from toolfold.runtime import RuntimeSettings
from toolfold.tools.search import Index


def spec(name: str, description: str) -> ToolSpec:
    return ToolSpec(name=name, python_name=name, description=description)


TOOLS = [
    *(spec(f"get_{noun}", f"Get one {noun} by its id.") for noun in ("invoice", "customer", "shipment", "refund")),
    *(spec(f"tool_{number}", f"Handle item {number} of the archive.") for number in range(40)),
    spec("current_weather", "Weather conditions of a place."),
]


class Topics:
    """An embedder that knows of weather and of tools, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str], /) -> list[list[float]]:
        self.asked += texts
        weather, tool, other = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
        return [
            weather if "weather" in text or "umbrella" in text else tool if ": " in text else other for text in texts
        ]


def names(index: Index, query: str, limit: int = 8) -> list[str]:
    return [hit.spec.name for hit in index.search(query, limit)]


def test_what_an_embedder_finds_is_fused_with_what_words_find() -> None:
    index = Index(TOOLS, embedder=Topics())

    assert set(names(index, "customer umbrella", 2)) == {"get_customer", "current_weather"}


def test_a_question_without_a_shared_word_finds_what_the_embedder_finds() -> None:
    question = "will my umbrella survive"

    assert names(Index(TOOLS), question) == []
    assert names(Index(TOOLS, embedder=Topics()), question) == ["current_weather"]


def test_nothing_is_found_where_neither_words_nor_the_embedder_find_an_answer() -> None:
    assert names(Index(TOOLS, embedder=Topics()), "teach a parrot to whistle") == []


def test_a_name_comes_first_whatever_the_embedder_says() -> None:
    embedder = Topics()
    tools = [*TOOLS, spec("umbrella", "Sell one.")]

    assert names(Index(tools, embedder=embedder), "umbrella", 1) == ["umbrella"]
    assert embedder.asked == []


def test_each_tool_is_embedded_once_also_by_indexes_made_from_another() -> None:
    embedder = Topics()
    first = Index(TOOLS, embedder=embedder)
    changed = [*TOOLS[1:], replace(TOOLS[0], description="Get a bill.")]
    seen = [replace(one, output_schema={"type": "object"}) for one in changed]

    second = first.updated(changed)
    for index in (first, second, second.updated(seen), first.updated(changed)):
        index.search("umbrella stand")

    texts = [text for text in embedder.asked if text != "umbrella stand"]
    assert len(texts) == len(set(texts)) == len(TOOLS) + 1
    assert texts[-1] == snapshot("get invoice: Get a bill.")


@pytest.mark.parametrize("vectors", [[], [[1.0], [1.0]], [["x"]]])
def test_where_an_embedder_fails_words_find_tools(vectors: list[list[float]], caplog: pytest.LogCaptureFixture) -> None:
    index = Index(TOOLS, embedder=lambda texts: vectors)

    with caplog.at_level(logging.WARNING, "toolfold.tools"):
        assert names(index, "customer by id", 1) == ["get_customer"]
    assert caplog.messages[0].startswith("the embedder failed, so tools are searched by words only: ")


@pytest.mark.long
async def test_programs_search_with_the_embedder_of_their_runtime() -> None:
    def current_weather(place: str) -> str:
        """Conditions of a place: weather."""
        return place

    def send_mail(to: str) -> str:
        """Write to someone."""
        return to

    program = "[one['name'] for one in await search_tools('is an umbrella needed')]"
    async with Runtime([current_weather, send_mail], settings=RuntimeSettings(embedder=Topics())) as runtime:
        outcome = await runtime.run(program)
        found = [one["name"] for one in runtime.catalog.search("is an umbrella needed")]

    assert (outcome.value, found) == (["current_weather"], ["current_weather"])


def configured(folder: Path, embedder: str) -> RuntimeSettings:
    (folder / "toolfold.yaml").write_text(f"tools:\n  embedder: {embedder}\n")
    return runtime_settings(load_config(folder / "toolfold.yaml"))


def test_a_config_names_a_function_in_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def embed(texts):\n    return [[1.0] for _ in texts]\n")

    embed = configured(tmp_path, "mine.py:embed").embedder

    assert callable(embed)
    assert embed(["a", "b"]) == [[1.0], [1.0]]


@pytest.mark.parametrize(("embedder", "model"), [("fastembed", "usual"), ("fastembed:a/b", "a/b")])
def test_a_config_names_fastembed_and_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedder: str, model: str
) -> None:
    class TextEmbedding:
        def __init__(self, model_name: str = "usual") -> None:
            self._name = model_name

        def embed(self, texts: Sequence[str]) -> Iterator[array[float]]:
            return (array("f", [len(self._name), len(text)]) for text in texts)

    fastembed = ModuleType("fastembed")
    fastembed.TextEmbedding = TextEmbedding  # type: ignore[attr-defined]  # a module of our own
    fastembed.__spec__ = ModuleSpec("fastembed", None)
    monkeypatch.setitem(sys.modules, "fastembed", fastembed)

    embed = configured(tmp_path, embedder).embedder

    assert callable(embed)
    assert embed(["ab"]) == [[len(model), 2.0]]


@pytest.mark.parametrize(
    ("embedder", "message"),
    [
        (
            "fastembed",
            snapshot(
                "toolfold.yaml:2: tools.embedder: 'fastembed' is not installed; "
                "install the extra 'fastembed' of toolfold: pip install 'toolfold[fastembed]'"
            ),
        ),
        (
            "words",
            snapshot(
                "toolfold.yaml:2: tools.embedder: 'words' is not 'fastembed', 'fastembed:MODEL' or 'MODULE:FUNCTION'"
            ),
        ),
        (
            "mine.py:embed",
            snapshot("toolfold.yaml:2: tools.embedder: 'mine.py' cannot be imported: FileNotFoundError"),
        ),
        (
            "toolfold.models:embed",
            snapshot("toolfold.yaml:2: tools.embedder: 'toolfold.models' has no function 'embed'"),
        ),
    ],
)
def test_an_embedder_that_is_not_there_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedder: str, message: str
) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)

    with pytest.raises(UsageError) as raised:
        configured(tmp_path, embedder)

    assert str(raised.value).replace(f"{tmp_path}/", "") == message
