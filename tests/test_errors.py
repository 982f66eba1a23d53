import importlib
import pkgutil
import sys
import tomllib
from pathlib import Path

import pytest

import toolfold
from toolfold import errors
from toolfold.errors import ToolfoldError, entry_for

ROOT = Path(__file__).parents[1]


def tree(kind: type[ToolfoldError]) -> set[type[ToolfoldError]]:
    return {kind}.union(*map(tree, kind.__subclasses__()))


def every_class() -> set[type[ToolfoldError]]:
    return {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ToolfoldError)}


def test_every_error_of_the_package_is_written_in_one_module_and_named_in_its_docstring() -> None:
    for module in pkgutil.walk_packages(toolfold.__path__, "toolfold."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    classes = [kind for kind in tree(ToolfoldError) if kind.__module__.startswith("toolfold")]

    assert {(kind.__module__, kind.__name__) for kind in classes} == {
        ("toolfold.errors", kind.__name__) for kind in every_class()
    }
    named = [line.split()[1] for line in (errors.__doc__ or "").splitlines() if line.lstrip().startswith("* ")]
    assert sorted(named) == sorted(kind.__name__ for kind in every_class())


@pytest.mark.parametrize(
    "table",
    [
        "interfaces.cli.command_process",
        "interfaces.http.outcome_bodies",
        "interfaces.mcp.outcome_results",
        "interfaces.pydantic_ai.outcome_returns",
    ],
)
def test_an_interface_says_of_every_class_what_becomes_of_it_and_of_no_other(table: str) -> None:
    of_error = importlib.import_module(f"toolfold.{table}").OF_ERROR

    assert set(of_error) == every_class()


def test_a_subclass_of_somebody_else_takes_the_entry_of_its_nearest_parent() -> None:
    class Own(errors.ToolFailed):
        pass

    table = {ToolfoldError: "root", errors.ToolError: "tool", errors.ToolFailed: "no", errors.UsageError: "usage"}

    assert [entry_for(kind("x"), table) for kind in (Own, errors.ToolNotFound, errors.SealBroken, errors.Fenced)] == [
        "no", "tool", "usage", "root",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "text", "command"),
    [
        ("pyvenv.cfg", "", "pip install 'toolfold[http]'"),
        ("pipx_metadata.json", "{}", "pipx inject toolfold 'toolfold[http]'"),
        ("uv-receipt.toml", '[tool]\nrequirements = [{ name = "toolfold" }]\n', "uv tool install 'toolfold[http]'"),
        (
            "uv-receipt.toml",
            '[tool]\nrequirements = [\n    { name = "toolfold", extras = ["redis", "mcp"] },\n'
            '    { name = "tabulate", specifier = ">=0.9" },\n    { name = "tqdm" },\n]\n'
            'entrypoints = [\n    { name = "toolfold", from = "toolfold" },\n]\n',
            "uv tool install --with 'tabulate>=0.9' --with 'tqdm' 'toolfold[http,mcp,redis]'",
        ),
    ],
)
def test_a_missing_extra_names_the_command_of_the_installer(
    file: str, text: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).write_text(text)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    assert errors.install_extra("http") == f"install the extra 'http' of toolfold: {command}"


def test_the_extra_all_has_every_extra_but_the_largest_two() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert extras["all"] == [f"toolfold[{','.join(sorted(set(extras) - {'all', 'dev', 'fastembed', 'ray'}))}]"]
