"""`toolfold libraries`: packages from an index into a set, and into programs; what fails leaves the old set in use."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import toolfold
from tests.libraries.wheels import make_source, make_wheel
from toolfold.config import load_config
from toolfold.errors import UsageError
from toolfold.libraries.installed_sets import target

Cli = Callable[..., tuple[int, str, str]]

SOURCES = str(Path(toolfold.__file__).parents[1])
PIP = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONFIG_FILE")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder of packages."""
    return tmp_path / "index"


@pytest.fixture
def cli(tmp_path: Path, index: Path) -> Cli:
    """`toolfold ARGUMENTS` in a folder with a config, with `index` for a registry and sets of its own."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    index.mkdir()
    kept = {key: value for key, value in os.environ.items() if key not in PIP}
    local = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": os.devnull}

    def run(*arguments: str, program: str = "", **environment: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "toolfold", *arguments], cwd=tmp_path, input=program, capture_output=True, text=True,
            env={**kept, **(environment or local), "PYTHONPATH": SOURCES, "XDG_DATA_HOME": str(tmp_path / "data")},
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run


def write_config(folder: Path, *packages: str, more: str = "") -> None:
    (folder / "toolfold.yaml").write_text(f"libraries:\n  packages: {json.dumps(packages)}\n{more}")


def sets_on_disk(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "data" / "toolfold" / "libraries").glob("*"))


STAGED = """
import sys
from pathlib import Path
from toolfold.libraries import LibraryStore
with LibraryStore(Path(sys.argv[1])).staging() as folder:
    print(folder.name, flush=True)
    sys.stdin.readline()
"""
SYNCED = "locked in toolfold.libraries.lock; restart running servers so that their programs can import it\n"
PACKAGE = "must be a package name with an optional version, such as networkx==3.4.2"
STAYS = "; the installed set stays in use\n"


def test_packages_are_locked_installed_and_imported_by_programs(cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra", "1.0")
    make_wheel(index, "zebra", "2.0", requires=["stripes>=1"])
    make_wheel(index, "stripes", "1.5", {"stripes/__init__.py": "COUNT = 30"})
    write_config(tmp_path, "zebra")

    assert cli("libraries", "sync") == (0, f"main: stripes 1.5, zebra 2.0\n{SYNCED}", "")
    assert cli("run", "-", program="import zebra, stripes\nprint(zebra.VERSION, stripes.COUNT)") == (0, "2.0 30\n", "")
    by_name = "import importlib\nprint(importlib.import_module('zebra').VERSION)"
    assert cli("run", "-", program=by_name) == (0, "2.0\n", "")
    assert cli("run", "-", program="print('none')") == (0, "none\n", "")
    assert cli("libraries", "check") == (0, "main: installed\n  import zebra: works\n", "")
    listed = json.loads(cli("libraries", "list", "--json")[1])["main"]
    assert (listed["packages"], listed["state"], listed["wheels"]) == (
        ["zebra"],
        "installed",
        [
            {"name": "stripes", "version": "1.5", "modules": ["stripes"]},
            {"name": "zebra", "version": "2.0", "modules": ["zebra"]},
        ],
    )
    lock = (tmp_path / "toolfold.libraries.lock").read_text()
    assert "file:" not in lock
    assert str(tmp_path) not in lock


def test_a_lock_brings_the_same_wheels_to_another_machine(cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra", "1.0")
    write_config(tmp_path, "zebra")
    cli("libraries", "sync")
    os.rename(tmp_path / "data", tmp_path / "elsewhere")
    make_wheel(index, "zebra", "2.0")

    before = cli("run", "-", program="import zebra")
    assert cli("libraries", "sync")[1] == f"main: zebra 1.0\n{SYNCED}"
    assert cli("run", "-", program="import zebra\nprint(zebra.VERSION)")[1] == "1.0\n"
    assert cli("libraries", "sync", "--upgrade")[1] == f"main: zebra 2.0\n{SYNCED}"
    assert before[0] == 2
    assert before[2].startswith(
        "toolfold: the packages of the library set 'main' are not installed here; run 'toolfold libraries sync'\n"
    )


def test_another_package_does_not_move_those_that_are_locked(cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra", "1.0")
    write_config(tmp_path, "zebra")
    cli("libraries", "sync")
    make_wheel(index, "zebra", "2.0")
    make_wheel(index, "okapi", "1.0")
    write_config(tmp_path, "zebra", "okapi")

    assert cli("libraries", "list")[1].splitlines()[0].startswith("main: older than its packages in the config; run ")
    assert cli("libraries", "sync")[1] == f"main: okapi 1.0, zebra 1.0\n{SYNCED}"


def test_nothing_in_a_package_runs_before_a_program_imports_it(cli: Cli, index: Path, tmp_path: Path) -> None:
    mark = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    files = {
        "zebra.py": mark, "sitecustomize.py": mark, "usercustomize/__init__.py": mark, "zebra.pth": f"import os; {mark}",
        "zebra-1.0.data/purelib/okapi.py": "", "zebra-1.0.data/scripts/run": mark, "../outside.py": mark, "/outside.py": mark,
    }  # fmt: skip
    make_wheel(index, "zebra", "1.0", files)
    write_config(tmp_path, "zebra")

    cli("libraries", "sync")

    (folder,) = (tmp_path / "data" / "toolfold" / "libraries").iterdir()
    assert not (tmp_path / "ran").exists()
    assert sorted(path.name for path in folder.iterdir()) == [
        ".toolfold.json", "__pycache__", "okapi.py", "zebra-1.0.dist-info", "zebra.py",
    ]  # fmt: skip
    assert str(tmp_path).encode() not in b"".join(
        path.read_bytes().replace(mark.encode(), b"") for path in folder.rglob("*okapi*.pyc")
    )
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o444}


CONFLICT = {"zealous 1.0 depends on stripes==2", "picky 1.0 depends on stripes==1"}


def test_what_cannot_be_installed_is_one_line_and_the_old_set_stays(cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra")
    write_config(tmp_path, "zebra")
    cli("libraries", "sync")
    make_source(index, "sourced")
    make_wheel(index, "picky", requires=["stripes==1"])
    make_wheel(index, "zealous", requires=["stripes==2"])
    make_wheel(index, "stripes", "1")
    make_wheel(index, "stripes", "2")
    before = (tmp_path / "toolfold.libraries.lock").read_text(), sets_on_disk(tmp_path)

    lines = []
    for packages in (["zebra", "nosuch"], ["zebra", "sourced"], ["zebra==9"], ["zebra", "picky", "zealous"]):
        write_config(tmp_path, *packages)
        code, out, error = cli("libraries", "sync")
        assert (code, out) == (2, "")
        assert ((tmp_path / "toolfold.libraries.lock").read_text(), sets_on_disk(tmp_path)) == before
        lines.append(error.removeprefix("toolfold: libraries, set 'main': ").removesuffix(STAYS))

    assert lines[:3] == [
        "no package 'nosuch' on the index; is it spelt right?",
        f"'sourced' has no wheel for this machine ({target()}); toolfold builds nothing from source",
        f"there is no wheel of 'zebra==9' for this machine ({target()}); the newest are 1.0",
    ]
    assert set(lines[3].removeprefix("the packages contradict each other: ").split("; ")) == CONFLICT
    assert not (index / "built").exists()
    assert cli("run", "-", program="import zebra\nprint(zebra.VERSION)")[:2] == (0, "1.0\n")


def test_a_file_that_is_another_than_the_locked_one_is_not_taken(cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra")
    write_config(tmp_path, "zebra")
    cli("libraries", "sync")
    os.rename(tmp_path / "data", tmp_path / "elsewhere")
    make_wheel(index, "zebra", files={"zebra.py": "VERSION = 'another'"})

    code, _, error = cli("libraries", "sync")

    assert (code, error) == (
        2,
        "toolfold: libraries, set 'main': the hash of 'zebra' is not the one in the lock: "
        f"the index has another file under the same version{STAYS}",
    )
    assert sets_on_disk(tmp_path) == []


HASH = "0" * 64
HOSTILE = [
    ({"name": "zebra\n--index-url http://127.0.0.1:9/"}, r"invalid name 'zebra\n--index-url http://127.0.0.1:9/'"),
    ({"name": "-r/etc/passwd"}, "invalid name '-r/etc/passwd'"),
    ({"version": "1.0\r\n-f /tmp"}, r"invalid version '1.0\r\n-f /tmp'"),
    ({"version": f"1.0 --hash=sha256:{HASH[:9]}"}, "invalid version '1.0 --hash=sha256:000000000'"),
    ({"version": "1.0\u2028"}, r"invalid version '1.0\u2028'"),
    ({"file": "../../zebra-1.0-py3-none-any.whl"}, "invalid file '../../zebra-1.0-py3-none-any.whl'"),
    ({"file": "http://127.0.0.1:9/zebra.whl"}, "invalid file 'http://127.0.0.1:9/zebra.whl'"),
    ({"file": "okapi-1.0-py3-none-any.whl"}, "file 'okapi-1.0-py3-none-any.whl' is not of 'zebra' '1.0'"),
    ({"sha256": HASH[1:] + "\n"}, rf"invalid sha256 '{HASH[1:]}\n'"),
    ({"sha256": "A" * 64}, f"invalid sha256 '{'A' * 64}'"),
]


@pytest.mark.parametrize("machine", [target(), "another machine"])
@pytest.mark.parametrize(("change", "reason"), HOSTILE, ids=[reason for _, reason in HOSTILE])
def test_a_lock_that_no_sync_wrote_is_one_clear_line(
    change: dict[str, str], reason: str, machine: str, cli: Cli, index: Path, tmp_path: Path
) -> None:
    make_wheel(index, "zebra", "1.0")
    write_config(tmp_path, "zebra")
    wheel = {"name": "zebra", "version": "1.0", "file": "zebra-1.0-py3-none-any.whl", "sha256": HASH, **change}
    sets = {"main": {machine: {"packages": ["zebra"], "wheels": [wheel]}}}
    (tmp_path / "toolfold.libraries.lock").write_text(json.dumps({"version": 1, "sets": sets}))

    done = cli("libraries", "sync")

    advice = "remove it and run 'toolfold libraries sync'"
    line = f"toolfold: toolfold.libraries.lock is not a lock file (set 'main': {reason}); {advice}\n"
    assert (done, sets_on_disk(tmp_path)) == ((2, "", line), [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"version": 1, "sets": {}, "a\\n\\u001b[31m": 1}', r"'Object contains unknown field `a\n\x1b[31m`'"),
        ('{"version": 1, "sets": ' + "[" * 100_000, "'Expected `object`, got `array` - at `$.sets`'"),
        (" " * (16 * 2**20 + 1), "it has more than 16777216 bytes"),
    ],
    ids=["a field", "deep", "long"],
)
def test_a_lock_that_cannot_be_read_is_one_clear_line(text: str, reason: str, cli: Cli, tmp_path: Path) -> None:
    write_config(tmp_path, "zebra")
    (tmp_path / "toolfold.libraries.lock").write_text(text)

    advice = "remove it and run 'toolfold libraries sync'"
    line = f"toolfold: toolfold.libraries.lock is not a lock file ({reason}); {advice}\n"
    assert cli("libraries", "sync") == (2, "", line)


def test_without_a_registry_the_old_set_stays(cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra")
    write_config(tmp_path, "zebra")
    cli("libraries", "sync")
    write_config(tmp_path, "zebra", "okapi")

    # Port 9 of this machine: nobody listens there. The password must not be shown.
    closed = {"PIP_INDEX_URL": "http://me:secret@127.0.0.1:9/simple", "PIP_CONFIG_FILE": os.devnull}
    code, out, error = cli("libraries", "sync", **closed)

    line = "the package index cannot be reached; look at pip's settings with 'pip config list'"
    assert (code, out, error) == (2, "", f"toolfold: libraries, set 'main': {line}{STAYS}")
    assert cli("run", "-", program="import zebra\nprint(zebra.VERSION)")[:2] == (0, "1.0\n")


def test_what_a_killed_sync_left_is_removed_by_the_next_one(cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra", "1.0")
    write_config(tmp_path, "zebra")
    (tmp_path / "temporary").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as registry:
        address = f"http://127.0.0.1:{registry.getsockname()[1]}/"
        homes = {"XDG_DATA_HOME": str(tmp_path / "data"), "TMPDIR": str(tmp_path / "temporary")}
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCES, "PIP_INDEX_URL": address, **homes}
        sync = subprocess.Popen([sys.executable, "-m", "toolfold", "libraries", "sync"], cwd=tmp_path, env=environment)
        connection, _ = registry.accept()  # pip asks, and waits for the answer
        sync.kill()
        sync.wait()
        connection.close()

    def leftovers() -> list[Path]:
        staged = (tmp_path / "data" / "toolfold" / "libraries").glob(".*")
        return [*staged, *(tmp_path / "temporary").glob("toolfold*")]

    before = len(leftovers())
    code, _, _ = cli("libraries", "sync")

    assert (before, code, leftovers()) == (1, 0, [])


def test_a_sync_removes_the_folders_of_killed_ones_and_leaves_those_of_living_ones(
    cli: Cli, index: Path, tmp_path: Path
) -> None:
    make_wheel(index, "zebra", "1.0")
    write_config(tmp_path, "zebra")
    store = tmp_path / "data" / "toolfold" / "libraries"
    living, killed = (
        subprocess.Popen([sys.executable, "-c", STAGED, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    )
    folders = [process.stdout.readline().decode().strip() for process in (living, killed) if process.stdout]
    killed.kill()
    killed.communicate()
    (store / ".new-older").mkdir()  # of a version that took no lock, with files that nobody may write
    (store / ".new-older" / "zebra.py").touch(0o444)

    before = sets_on_disk(tmp_path)
    synced = cli("libraries", "sync")
    during = sets_on_disk(tmp_path)
    living.communicate(b"go on\n")

    assert before == sorted([".new-older", *folders])
    assert (synced[0], during) == (0, [folders[0], *sets_on_disk(tmp_path)])
    assert (len(during), living.returncode) == (2, 0)


@pytest.mark.parametrize("packages", [["zebra"], ["broken"], ["unknown"]], ids=repr)
def test_a_sync_leaves_no_temporary_folder(packages: list[str], cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra", "1.0")
    make_wheel(index, "broken", "1.0").write_bytes(b"no archive")
    write_config(tmp_path, *packages)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    local = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": os.devnull, "TMPDIR": str(temporary)}

    code, _, _ = cli("libraries", "sync", **local)

    assert (code, len(sets_on_disk(tmp_path)), list(temporary.glob("toolfold-wheels-*"))) == (
        (0, 1, []) if packages == ["zebra"] else (2, 0, [])
    )


def test_sets_side_by_side_have_versions_of_their_own(cli: Cli, index: Path, tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        make_wheel(index, "zebra", version)
    make_wheel(index, "okapi", requires=["zebra<2"])
    write_config(tmp_path, "zebra", more="  sets: {old: {packages: [okapi]}}\n")

    assert cli("libraries", "sync")[1] == f"main: zebra 2.0\nold: okapi 1.0, zebra 1.0\n{SYNCED}"
    assert cli("run", "-", program="import zebra\nprint(zebra.VERSION)")[1] == "2.0\n"
    assert cli("run", "-", program="import zebra, okapi\nprint(zebra.VERSION)")[1] == "1.0\n"


def test_a_preload_that_fails_is_found_by_the_sync(cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra", files={"zebra.py": "raise ValueError('no stripes')"})
    write_config(tmp_path, "zebra", more="  preload: [zebra]\n")
    failing = cli("libraries", "sync")
    write_config(tmp_path, "zebra", more="  preload: [okapi]\n")
    strange = cli("libraries", "sync")
    write_config(tmp_path, "zebra")
    cli("libraries", "sync")

    reason = "'zebra' in libraries.preload cannot be imported (ValueError: no stripes)"
    assert failing == (2, "", f"toolfold: libraries, set 'main': {reason}\n")
    assert strange == (
        2,
        "",
        "toolfold: libraries, set 'main': preload names 'okapi', which no package of the set has\n",
    )
    assert cli("libraries", "check") == (1, "main: installed\n  import zebra: ValueError: no stripes\n", "")


def test_a_changed_file_is_found_by_the_check(cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra")
    write_config(tmp_path, "zebra")
    cli("libraries", "sync")
    (module,) = (tmp_path / "data").rglob("zebra.py")
    module.chmod(0o644)
    module.write_text("VERSION = 'changed'")

    code, out, _ = cli("libraries", "check")

    assert code == 1
    assert (
        out.splitlines()[0]
        == "main: changed on disk since it was installed; remove its folder and run 'toolfold libraries sync'"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("packages: ['--index-url=x']", f"packages[0]: {PACKAGE}, got '--index-url=x'"),
        ("packages: ['zebra @ https://x/y.whl']", f"packages[0]: {PACKAGE}, got 'zebra @ https://x/y.whl'"),
        (r'packages: ["zebra==\n--pre"]', rf"packages[0]: {PACKAGE}, got 'zebra==\n--pre'"),
        ("packages: [../zebra]", f"packages[0]: {PACKAGE}, got '../zebra'"),
        ("preload: [a-b]", "preload[0]: must be the name of a module, such as networkx, got 'a-b'"),
    ],
)
def test_only_names_and_versions_are_packages(text: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "toolfold.yaml"
    path.write_text(f"libraries: {{{text}}}\n")

    with pytest.raises(UsageError) as error:
        load_config(path)

    assert str(error.value) == f"{path}:1: libraries.{line}"


def test_the_doctor_names_each_set_and_what_became_of_it(cli: Cli, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "zebra", "1.0")
    write_config(tmp_path, "zebra")
    cli("libraries", "sync")
    write_config(tmp_path, "zebra", more="  sets: {more: {packages: [okapi]}}\n")

    shown = json.loads(cli("doctor", "--json")[1])["library_sets"]

    assert shown == {"main": "installed; zebra", "more": "not locked; run 'toolfold libraries sync'; okapi"}


def test_without_packages_there_is_nothing_to_sync(cli: Cli, tmp_path: Path) -> None:
    assert (
        cli("libraries", "sync")[2]
        == "toolfold: no toolfold.yaml in this or a parent folder; 'toolfold init' writes one\n"
    )
    write_config(tmp_path)
    assert (
        cli("libraries", "sync")[2]
        == "toolfold: the config lists no packages; add them as libraries: {packages: [networkx]}\n"
    )
    for command in ("list", "check"):
        assert cli("libraries", command) == (0, "the config lists no packages\n", "")
