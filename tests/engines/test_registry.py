"""Engines by name: built in, registered by another distribution, misspelt, with options of their own."""

import warnings
from pathlib import Path

import pytest

from tests.installed import write_metadata
from toolfold import Runtime
from toolfold.engines.base import EngineSettings
from toolfold.engines.monty import MontyEngine
from toolfold.engines.process import ProcessEngine
from toolfold.engines.registry import engine_named, engine_names, known_engine
from toolfold.engines.scripted import ScriptedEngine
from toolfold.errors import UsageError
from toolfold.models import Limits

PLAYED = """
from toolfold.testing import Ended, ScriptedEngine

def make(settings, /, *, value=7):
    made = ScriptedEngine(Ended(status="finished", value=value))
    made.settings = settings
    return made
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def played(site: Path) -> Path:
    (site / "played_engine.py").write_text(PLAYED)
    write_metadata(site, "played", "played = played_engine:make")
    return site


def test_the_built_in_engines_have_names() -> None:
    assert engine_names()[:4] == ("auto", "process", "wasm", "monty")
    assert [type(engine_named(name)) for name in ("process", "monty")] == [ProcessEngine, MontyEngine]


async def test_an_engine_of_another_distribution_is_found_by_its_name(played: Path) -> None:
    async with Runtime(engine="played") as runtime:
        outcome = await runtime.run("1")

    assert (outcome.status, outcome.value, outcome.engine) == ("finished", 7, "scripted")


async def test_it_takes_options_of_its_own(played: Path) -> None:
    async with Runtime(engine="played", engine_options={"value": [1]}) as runtime:
        outcome = await runtime.run("1")

    assert outcome.value == [1]


def test_it_is_told_what_the_runtime_knows(played: Path) -> None:
    settings = EngineSettings(limits=Limits(calls=3), max_kept_guests=2)

    engine = engine_named("played", settings=settings)

    assert isinstance(engine, ScriptedEngine)
    assert vars(engine)["settings"] == settings


def test_an_unknown_name_is_one_line_with_the_known_ones(played: Path) -> None:
    for wrong in (known_engine, engine_named, lambda name: Runtime(engine=name)):
        with pytest.raises(UsageError) as caught:
            wrong("docker")

        assert str(caught.value) == "no engine 'docker'; there are auto, process, wasm, monty, ray, played"


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("process", "tier", "engine 'process' has no option 'tier'; it has isolation, warm, accept_no_isolation, host_libraries, library_sets"),
        ("auto", "tier", "engine 'process' has no option 'tier'; it has isolation, warm, accept_no_isolation, host_libraries, library_sets"),
        ("monty", "isolation", "engine 'monty' has no option 'isolation'; it has max_programs"),
        ("played", "speed", "engine 'played' has no option 'speed'; it has value"),
    ],
)  # fmt: skip
def test_an_option_that_an_engine_does_not_have_is_named(played: Path, name: str, option: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Runtime(engine=name, engine_options={option: 1})

    assert str(caught.value) == message


def test_no_distribution_can_take_the_name_of_a_built_in_engine(site: Path) -> None:
    write_metadata(site, "evil", "process = evil:make")

    assert isinstance(engine_named("process"), ProcessEngine)
    assert engine_names().count("process") == 1


def test_a_name_that_two_distributions_register_is_refused(played: Path) -> None:
    write_metadata(played, "other", "played = other:make")

    with pytest.raises(UsageError) as caught:
        engine_named("played")

    assert str(caught.value) == (
        "engine 'played' is registered twice, as other:make and played_engine:make; uninstall one of them"
    )


def test_an_engine_that_cannot_be_imported_says_so(site: Path) -> None:
    write_metadata(site, "broken", "broken = no_such_module:make")

    with pytest.raises(UsageError) as caught:
        engine_named("broken")

    assert str(caught.value) == (
        "engine 'broken' cannot be imported from 'no_such_module:make': No module named 'no_such_module'"
    )


def test_options_are_for_names_only() -> None:
    with pytest.raises(UsageError) as caught:
        Runtime(engine=ScriptedEngine(), engine_options={"warm": 1})

    assert str(caught.value) == "engine_options go with an engine's name; give warm to the engine itself"


def test_the_new_form_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Runtime(engine="process", engine_options={"warm": 0, "host_libraries": True})
