import importlib
import pkgutil

import pytest

import toolfold
from toolfold import errors
from toolfold.errors import ToolfoldError, entry_for


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
