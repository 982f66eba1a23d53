"""Public API: the packages that people import from, the names in each, and that the guides use no others."""

import ast
import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import toolfold
from design.api import PACKAGES as PUBLIC
from tests.test_docs import EXAMPLES, ROOT

MOST_NAMES = 40


def test_the_names_of_the_package_are_these() -> None:
    assert toolfold.__all__ == [
        "Answers",
        "ApiAuth",
        "BackgroundExecution",
        "Call",
        "CallContext",
        "CallRecord",
        "ContextSaved",
        "Decision",
        "EngineCrashed",
        "EngineError",
        "EngineUnavailable",
        "File",
        "FolderStore",
        "Limits",
        "Media",
        "Outcome",
        "Paused",
        "PausedLimits",
        "Policy",
        "Problem",
        "ProgramOptions",
        "Reply",
        "Runtime",
        "RuntimeSettings",
        "SessionLimits",
        "Tool",
        "ToolError",
        "ToolSpec",
        "ToolfoldError",
        "UsageError",
        "as_tool",
        "drive",
        "from_config",
        "openapi_tools",
        "prompt_text",
        "refuse_approvals",
        "run_sync",
        "shell_tool",
        "tool",
        "value_as_json",
    ]
    assert len(toolfold.__all__) <= MOST_NAMES


@pytest.mark.parametrize("package", PUBLIC)
def test_every_name_of_a_public_package_exists(package: str) -> None:
    module = import_module(package)

    assert module.__doc__
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert sorted(set(module.__all__)) == sorted(module.__all__)


@pytest.mark.parametrize("package", PUBLIC)
def test_a_public_package_refuses_other_names(package: str) -> None:
    assert not hasattr(import_module(package), "nothing_of_that_name")


def sources() -> Iterator[tuple[str, str]]:
    """The Python of the guides: blocks of pages, cells of the notebook, files of the examples."""
    for example in EXAMPLES:
        if example.kind.startswith("python") and example.kind != "python program":
            yield f"{example.page}:{example.line}", textwrap.dedent(example.text)
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")
    for path in sorted((ROOT / "examples").rglob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        for number, cell in enumerate(cell for cell in cells if cell["cell_type"] == "code"):
            yield f"{path.name}:{number}", "".join(cell["source"])


def uses(text: str) -> Iterator[tuple[str, str]]:
    """Each module of toolfold that a text imports from, and the name; `toolfold.tool` is a use of `tool`, too."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "toolfold":
                yield from ((module, alias.name) for alias in names)
            case ast.Import(names=names):
                yield from ((alias.name, "") for alias in names if alias.name.split(".")[0] == "toolfold")
            case ast.Attribute(value=ast.Name(id="toolfold"), attr=name):
                yield "toolfold", name


def is_public(module: str, name: str) -> bool:
    if module not in PUBLIC:
        return False
    return name in ("", *import_module(module).__all__) or f"{module}.{name}" in PUBLIC


def test_guides_and_examples_import_public_names_alone() -> None:
    imports = {(place, *use) for place, text in sources() for use in uses(text)}

    assert len(imports) > 100
    assert sorted(use for use in imports if not is_public(*use[1:])) == []


PASSED_ON = {
    f"toolfold.pydantic_ai.FunctionToolset.{name}" for name in ("add_function", "tool", "with_metadata")
}  # take what the methods of Pydantic AI that they override take


def functions(package: str) -> Iterator[tuple[str, object]]:
    module = import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isroutine(value):
            yield f"{package}.{name}", value
        elif inspect.isclass(value) and value.__module__.startswith("toolfold."):
            for key, member in vars(value).items():
                is_public = key == "__init__" or not key.startswith("_")
                if is_public and inspect.isfunction(member):
                    yield f"{package}.{name}.{key}", member


@pytest.mark.parametrize("package", PUBLIC)
def test_no_public_function_takes_keywords_without_types(package: str) -> None:
    untyped = {
        name
        for name, function in functions(package)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.VAR_KEYWORD and parameter.annotation in ("Any", Any)
    }

    assert untyped - PASSED_ON == set()


def test_importing_the_package_does_not_import_what_is_slow_to_import() -> None:
    slow = ("pydantic", "asyncio", "rich", "numpy", "pydantic_monty")
    code = f"import sys, toolfold; print([name for name in {slow} if name in sys.modules])"
    source = str(Path(toolfold.__file__).parents[1])

    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
