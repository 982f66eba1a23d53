"""What a checked program needs: its library set and the names that must be ready."""

import pytest

from toolfold.models import InstalledSet, Limits, Problem, Program
from toolfold.program import Checker, check


@pytest.mark.parametrize(
    ("text", "library_set", "preset_names"),
    [
        ("", "bare", ()),
        ("  \n\t\n", "bare", ()),
        ("print(1)", "bare", ()),
        ("print(json.dumps(1))", "bare", ("json",)),
        ("import json\nprint(json.dumps(1))", "bare", ()),
        ("def f():\n    import json\nprint(json.dumps(1))", "bare", ("json",)),
        ("def f(json):\n    return json\n", "bare", ()),
        ("print(time.time(), json.dumps(1), re.escape('a'))", "bare", ("json", "re", "time")),
        ("for t in await asyncio.gather():\n    print(t)", "bare", ("asyncio",)),
        ("print(pd.DataFrame())", "data", ("pd",)),
        ("def f() -> pd.DataFrame: ...", "data", ("pd",)),
        ("pd = 3\nprint(pd)", "bare", ()),
        ("import numpy as np\nprint(np.pi)", "data", ()),
        ("from sklearn.linear_model import Ridge", "science", ()),
        ("def f():\n    import pandas", "data", ()),
        ("try:\n    import seaborn\nexcept ImportError:\n    pass", "science", ()),
        ("print(scipy.__version__)", "science", ("scipy",)),
        ("x = type\nx.np = 3", "bare", ()),
        ("print(string.digits)", "bare", ()),  # a tool has this name, and wins
    ],
)
def test_a_program_says_what_it_needs(text, library_set, preset_names, checker: Checker) -> None:
    assert checker.check(text) == Program(text=text, library_set=library_set, preset_names=preset_names)


def test_a_module_is_judged_only_when_the_installed_ones_are_known() -> None:
    text = "import numpy, yaml.nodes, json, tools"

    assert check(text) == Program(text=text, library_set="data")
    assert check(text, installed={"numpy", "yaml"}) == Program(text=text, library_set="data")
    assert check(text, installed={"numpy"}) == Problem(
        kind="import",
        message="'yaml' (package 'pyyaml') is not installed here; use the standard library; installed are numpy",
        line=1,
        column=15,
        source=text + "\n" + " " * 14 + "^",
    )


def test_names_of_the_session_are_not_taken_for_misspelt_tools_or_presets(checker: Checker) -> None:
    text = "await prise(json)"

    assert checker.check(text, known_names={"prise", "json"}) == Program(text=text)


def test_a_program_that_is_too_large_is_not_parsed() -> None:
    limits = Limits(program_bytes=8)

    assert check("x = 'é'", limits=limits) == Program(text="x = 'é'")
    assert check("x = 'éé'", limits=limits) == Problem(
        kind="too_large", message="the program is larger than 8 bytes; read data from files or tools instead"
    )
    assert Checker().check("x = 12345", limits=limits) == check("x = 12345", limits=limits)


def test_one_checker_serves_many_programs(checker: Checker) -> None:
    texts = ["await price(ticker='A')", "await prise()", "x ="]

    assert [checker.check(text) for text in texts * 2] == [checker.check(text) for text in texts] * 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("await legacy(user_id='u', from_='2024')", id="properties that are no identifiers"),
        pytest.param("await retire(user='u')", id="a required property that has a default"),
        pytest.param("await puzzle(x=1)", id="a schema that is a choice of schemas"),
        pytest.param("filter(3)", id="a tool named like a builtin"),
        pytest.param("string.digits", id="a tool named like a preset"),
        pytest.param("await price(b'A')", id="bytes"),
        pytest.param("await price(ticker=...)", id="an ellipsis"),
        pytest.param("await price(*[], tickr='A') if 0 else exec('')", id="names bound unseen"),
    ],
)
def test_what_is_not_certain_is_left_to_the_run(text: str, checker: Checker) -> None:
    assert checker.check(text) == Program(text=text)


def test_a_missing_module_is_told_with_its_package_what_is_there_and_what_to_add() -> None:
    graphs = InstalledSet(name="main-1", folder="", modules=frozenset({"networkx", "six"}), offers=("networkx",))
    installed = {"pandas", "numpy", "dateutil", "networkx", "six"}

    problem = Checker().check("import cv2\nawait nothing()", installed=installed, library_sets=[graphs])

    assert isinstance(problem, Problem)
    assert problem.message == (
        "'cv2' (package 'opencv-python') is not installed here; use the standard library; "
        "installed are networkx, numpy, pandas; the operator can add 'opencv-python' to libraries.packages"
    )


def test_a_module_of_the_extra_for_data_is_told_with_the_extra() -> None:
    problem = Checker().check("import matplotlib.pyplot as plt", installed=set(), library_sets=[])

    assert isinstance(problem, Problem)
    assert problem.message == (
        "'matplotlib' is not installed here; use the standard library; "
        "the operator can install the extra 'data' of toolfold, or add 'matplotlib' to libraries.packages"
    )


@pytest.mark.parametrize(
    ("text", "library_set"),
    [
        ("import networkx", "main-1"),
        ("import networkx, pandas", "main-1"),
        ("import okapi, networkx", "other-1"),
        ("import pandas as pd\npd.read_parquet('x')", "main-1"),
        ("pd.DataFrame().to_parquet('x')", "main-1"),
        ("import importlib\nimportlib.import_module('networkx')", "main-1"),
        ("print('networkx')", "bare"),
        ("import pandas", "data"),
    ],
)
def test_an_installed_set_is_chosen_by_what_a_program_imports(text: str, library_set: str) -> None:
    sets = [
        InstalledSet(name="main-1", folder="", modules=frozenset({"networkx", "pyarrow"})),
        InstalledSet(name="other-1", folder="", modules=frozenset({"networkx", "okapi"})),
    ]

    checked = Checker().check(text, library_sets=sets)

    assert isinstance(checked, Program)
    assert checked.library_set == library_set
