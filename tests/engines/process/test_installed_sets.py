"""Packages that were installed for programs are there for those that import them, in the locked guest."""

from pathlib import Path
from typing import Any

import pytest

from toolfold import Limits, Runtime
from toolfold.engines.process import ProcessEngine
from toolfold.engines.process.jail_layout import BARE, Jail, jail_of, with_room
from toolfold.models import InstalledSet

both_tiers = pytest.mark.parametrize("isolation", ["namespace", "landlock"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for one in (tmp_path, *tmp_path.parents[:2]):
        one.chmod(0o755)
    return tmp_path


def installed(folder: Path, name: str, *, preload: tuple[str, ...] = (), **modules: str) -> InstalledSet:
    place = folder / name
    place.mkdir()
    for module, text in modules.items():
        (place / f"{module}.py").write_text(text)
    return InstalledSet(name=name, folder=str(place), modules=frozenset(modules), preload=preload)


def runtime(*sets: InstalledSet, isolation: str = "namespace") -> Runtime:
    return Runtime(engine="process", engine_options={"library_sets": sets, "isolation": isolation})


async def values(runtime: Runtime, *texts: str, **options: Any) -> list[object]:
    found: list[object] = []
    async with runtime:
        for text in texts:
            outcome = await runtime.run(text, **options)
            found.append(outcome.value if outcome.status == "finished" else str(outcome.problem).splitlines()[0])
    return found


@both_tiers
async def test_a_program_finds_the_set_that_its_imports_ask_for(folder: Path, isolation: str) -> None:
    one = installed(folder, "one-1", zebra="STRIPES = 1", shared="SET = 'one'")
    two = installed(folder, "two-1", okapi="STRIPES = 2", shared="SET = 'two'")

    found = await values(
        runtime(one, two, isolation=isolation),
        "import zebra, shared\n[zebra.STRIPES, shared.SET]",
        "import okapi, shared\n[okapi.STRIPES, shared.SET]",
        "import importlib\nimportlib.import_module('okapi').STRIPES",
        "try:\n    import zebra\nexcept ImportError:\n    import okapi\n'zebra' in globals()",
        "import sys\n[path for path in sys.path if 'libraries' in path]",
    )

    assert found == [[1, "one"], [2, "two"], 2, True, []]


@both_tiers
async def test_nothing_of_it_can_be_changed_and_nothing_runs_by_itself(folder: Path, isolation: str) -> None:
    one = installed(
        folder, "one-1", zebra="import sys\nMARKS = [name for name in ('json_marked', 'site_marked') if hasattr(sys, name)]",
        sitecustomize="import sys; sys.site_marked = 1", json="import sys; sys.json_marked = 1",
    )  # fmt: skip
    (Path(one.folder) / "evil.pth").write_text("import sys; sys.site_marked = 1\n")
    write = "import zebra\ntry:\n    open(zebra.__file__, 'a')\nexcept OSError as error:\n    print(type(error).__name__)\nzebra.MARKS"

    assert await values(runtime(one, isolation=isolation), write) == [[]]
    assert (
        Path(one.folder) / "zebra.py"
    ).read_text() == "import sys\nMARKS = [name for name in ('json_marked', 'site_marked') if hasattr(sys, name)]"


SOCKET = """
import socket, os
try:
    socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    SEEN = "a socket"
except OSError as error:
    SEEN = type(error).__name__
"""


async def test_a_package_is_imported_under_the_lock_unless_it_is_preloaded(folder: Path) -> None:
    locked = installed(folder, "one-1", zebra=SOCKET)
    trusted = installed(folder, "two-1", preload=("okapi",), okapi=SOCKET)

    found = await values(
        runtime(locked, trusted),
        "import zebra\nzebra.SEEN",
        "import sys\nis_loaded = 'okapi' in sys.modules\nimport okapi\n[is_loaded, okapi.SEEN]",
        "import sys\n'okapi' in sys.modules",
    )

    assert found == ["PermissionError", [True, "a socket"], False]


SEEN = "import os\nsorted(os.listdir('/py/libraries')) if os.path.exists('/py/libraries') else None"


async def test_a_set_is_in_the_jail_of_the_programs_that_need_it_and_of_no_others(folder: Path) -> None:
    one = installed(folder, "one-1", zebra="STRIPES = 1")
    two = installed(folder, "two-1", preload=("okapi",), okapi="STRIPES = 2")

    found = await values(
        runtime(one, two), SEEN, f"import pandas\n{SEEN}", f"import zebra\n{SEEN}", f"import okapi\n{SEEN}", SEEN
    )

    assert found == [None, None, ["one-1"], ["two-1"], None]


async def test_no_zygote_is_started_for_a_set_before_a_program_needs_it(folder: Path) -> None:
    one = installed(folder, "one-1", zebra="STRIPES = 1")
    engine = ProcessEngine(library_sets=[one])

    async with Runtime(engine=engine) as made:
        await made.run("pass")
        before = list(engine._pools)
        await made.run("import zebra")

    assert before == [BARE]
    assert (BARE.mounted([one]), with_room(Limits(), None)) == ((), Limits())


async def test_the_jail_of_a_session_has_every_set_and_one_zygote_serves_them_all(folder: Path) -> None:
    one = installed(folder, "one-1", zebra="STRIPES = 1")
    two = installed(folder, "two-1", okapi="STRIPES = 2")

    found = await values(
        runtime(one, two),
        SEEN,
        "import zebra\nzebra.STRIPES",
        "import okapi\nokapi.STRIPES",
        session="s",
        keep_names=True,
    )

    assert found == [["one-1", "two-1"], 1, 2]
    assert {jail_of(name, (one, two), is_session=True) for name in ("bare", "one-1", "two-1")} == {Jail("bare", True)}


async def test_a_program_whose_set_is_no_longer_configured_goes_without(folder: Path) -> None:
    one = installed(folder, "one-2", zebra="STRIPES = 2")

    assert [jail_of(name, (one,)) for name in ("data", "one-1", "gone-1")] == [Jail("data"), Jail("one-2"), BARE]


async def test_a_session_finds_packages_that_its_first_program_did_not_need(folder: Path) -> None:
    one = installed(folder, "one-1", zebra="STRIPES = 1")

    found = await values(runtime(one), "x = 7", "import zebra\n[x, zebra.STRIPES]", session="s", keep_names=True)

    assert found == [None, [7, 1]]


async def test_a_package_that_cannot_be_preloaded_is_named(folder: Path) -> None:
    one = installed(folder, "one-1", preload=("zebra",), zebra="raise ValueError('no stripes')")
    made = runtime(one)

    async with made:
        with pytest.raises(Exception) as error:
            await made.run("import zebra")

    assert str(error.value) == (
        "cannot isolate here: 'zebra' in libraries.preload cannot be imported (ValueError: no stripes)"
    )


async def test_a_set_that_was_installed_anew_has_the_place_of_the_old_one(folder: Path) -> None:
    one = installed(folder, "one-2", zebra="STRIPES = 2")

    assert one.replaces("one-1")
    assert not one.replaces("other-2")
