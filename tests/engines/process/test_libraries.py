"""Of the installed packages a program sees the libraries of the sets and what those need, unless told otherwise."""

from pathlib import Path

import pytest

from tests.engines.process.probing import answer
from toolfold.engines.process.doctor import PROBE
from toolfold.engines.process.jail_layout import library_entries
from toolfold.engines.process.zygote import Zygote
from toolfold.engines.process.zygote_launch import LANDLOCK, NAMESPACE, LaunchPlan, Tier
from toolfold.runtime import Runtime

both_tiers = pytest.mark.parametrize("tier", [NAMESPACE, LANDLOCK], ids=lambda tier: tier.name)

LOOK = """
import importlib.util, sys
def find():
    try:
        import acme_secret
        return acme_secret.TOKEN
    except ImportError as error:
        return str(error)
def read():
    for path in [*sys.path, "/py/site", "/py/site1", host_site]:
        try:
            return open(f"{path}/acme_secret/__init__.py").read()
        except OSError:
            continue
result = [find(), read()]
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that is found before all others."""
    site = tmp_path / "site-packages"
    (site / "acme_secret").mkdir(parents=True)
    (site / "acme_secret" / "__init__.py").write_text("TOKEN = 'canary'")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    monkeypatch.syspath_prepend(str(site))
    return site


async def look(tier: Tier, site: Path, text: str = LOOK, *, host_libraries: bool = False) -> object:
    zygote = await Zygote.start(LaunchPlan(tier=tier, loop_module=PROBE, host_libraries=host_libraries))
    one = zygote.spawn()
    try:
        await one.ready
        return await answer(one, text, host_site=str(site))
    finally:
        one.close()
        await zygote.close()


@both_tiers
async def test_another_package_of_the_host_is_not_there(tier: Tier, site: Path) -> None:
    assert await look(tier, site) == ["No module named 'acme_secret'", None]


@both_tiers
async def test_an_operator_can_ask_for_all_that_is_installed(tier: Tier, site: Path) -> None:
    found, read = await look(tier, site, host_libraries=True)  # type: ignore[misc]

    assert (found, read) == ("canary", "TOKEN = 'canary'")


@both_tiers
async def test_the_libraries_of_all_sets_can_be_imported_in_each(tier: Tier, site: Path) -> None:
    text = """
import dateutil, importlib.metadata, matplotlib, mpl_toolkits.mplot3d, numpy, pandas, PIL.Image, sys
result = [importlib.metadata.version("numpy") == numpy.__version__, "pytest" in sys.modules]
try:
    import pytest
except ImportError:
    result.append("no pytest")
"""
    assert await look(tier, site, text) == [True, False, "no pytest"]


@both_tiers
async def test_openpyxl_can_be_imported_in_each(tier: Tier, site: Path) -> None:
    assert await look(tier, site, "import openpyxl\nresult = openpyxl.__name__") == "openpyxl"


@both_tiers
async def test_packages_beside_the_standard_library_cannot_be_read(tier: Tier, site: Path) -> None:
    text = """
import glob, os
folders = [os.path.dirname(os.__file__), *glob.glob("/usr/lib*/python3*")]
found = [path for folder in folders for kind in ("site", "dist") for path in glob.glob(f"{folder}/{kind}-packages/*/*.py")]
result = []
for path in found:
    try:
        open(path)
        result.append(path)
    except PermissionError:
        pass
"""
    assert await look(tier, site, text) == []


def test_the_needs_of_a_library_come_with_it_and_shared_folders_only_in_part(tmp_path: Path) -> None:
    _install(
        tmp_path,
        "pandas",
        ["pandas/__init__.py", "../../bin/x", "pandas.libs/a.so"],
        "Needed_One>=2",
        "rest; extra == 'all'",
    )
    _install(tmp_path, "needed.one", ["shared/one/__init__.py", "single.py", "__pycache__/single.pyc"])
    _install(tmp_path, "rest", ["rest/__init__.py"])
    _install(tmp_path, "other", ["shared/other/__init__.py", "other.py"])

    entries = library_entries((str(tmp_path),))

    names = ["needed.one-1.dist-info", "pandas", "pandas-1.dist-info", "pandas.libs", "shared/one", "single.py"]
    assert entries == {name: str(tmp_path / name) for name in names}


def test_a_package_of_the_older_kind_is_found_too(tmp_path: Path) -> None:
    (tmp_path / "numpy-1.24.egg-info").mkdir()
    (tmp_path / "numpy-1.24.egg-info" / "top_level.txt").write_text("numpy\n")
    (tmp_path / "numpy").mkdir()

    assert sorted(library_entries((str(tmp_path),))) == ["numpy", "numpy-1.24.egg-info"]


def _install(site: Path, name: str, paths: list[str], *requires: str) -> None:
    record = site / f"{name}-1.dist-info"
    record.mkdir()
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    (record / "METADATA").write_text(f"Name: {name}\n{needs}\nRequires-Dist: not-a-header\n")
    (record / "RECORD").write_text("".join(f"{path},,\n" for path in [*paths, f"{record.name}/METADATA"]))
    for path in paths:
        if not path.startswith(".."):
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text("")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("import io\nfrom tqdm import tqdm\nsum(tqdm(range(4), file=io.StringIO()))", 6),
        ("from tabulate import tabulate\ntabulate([[1, 'a']], tablefmt='plain')", "1  a"),
        ("from rich.console import Console\nfrom rich.table import Table\nConsole(width=40).print(Table('a'))\n1", 1),
        ("from rich.markdown import Markdown\nfrom rich.syntax import Syntax\n1", 1),
        ("from pydantic import BaseModel\nclass Row(BaseModel):\n    a: int\nRow(a='3')", {"a": 3}),
        ("from dateutil import parser\nparser.parse('3 May 2024')", "2024-05-03T00:00:00"),
        ("import seaborn as sns\ntype(sns.barplot(x=[1, 2], y=[3, 4])).__name__", "Axes"),
        ("import pandas as pd\npd.DataFrame({'a': [1]}).to_markdown(index=False)", "|   a |\n|----:|\n|   1 |"),
    ],
)  # fmt: skip
async def test_a_program_imports_what_models_usually_import(text: str, value: object) -> None:
    async with Runtime(engine="process") as runtime:
        outcome = await runtime.run(text)

    assert (outcome.status, outcome.value) == ("finished", value)
