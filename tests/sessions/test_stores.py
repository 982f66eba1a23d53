"""The folder in which sessions keep their files, shared by several processes."""

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

from toolfold.models import File
from toolfold.sessions.stores import Change, FolderStore, digest_of

WRITER = """
import sys
from toolfold.models import File
from toolfold.sessions.stores import Change, FolderStore

folder, writer = sys.argv[1:]
store = FolderStore(folder)
for number in range(25):
    file = File(name=f"{writer}-{number}", data=str(number % 3).encode())
    store.merge("s", Change(put=[file]), max_bytes=1000)
    assert file in store.load("s"), file.name
"""
FULL_DISK = """
import resource, sys
from toolfold.models import File
from toolfold.sessions.stores import Change, FolderStore

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    FolderStore(sys.argv[1]).merge("s", Change(put=[File(name="a", data=b"1" * 2000)]), max_bytes=5000)
except OSError as error:
    print(error.strerror)
"""

CLOCK_AHEAD = """
import sys, time
read = time.time
time.time = lambda: read() + 7200
from toolfold.models import File
from toolfold.sessions.stores import Change, FolderStore

FolderStore(sys.argv[1]).merge("s", Change(put=[File(name="b", data=b"2")]), max_bytes=10)
"""


def test_processes_that_write_to_one_session_at_once_lose_nothing(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(number)], stderr=subprocess.PIPE, text=True)
        for number in range(4)
    ]

    said = [writer.communicate()[1] for writer in writers]

    assert said == [""] * 4
    assert {file.name for file in FolderStore(tmp_path).load("s")} == {
        f"{writer}-{number}" for writer in range(4) for number in range(25)
    }


def test_a_file_that_did_not_fit_on_the_disk_leaves_no_part_behind(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.merge("s", Change(put=[File(name="b", data=b"2")]), max_bytes=10)

    said = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout

    assert said == "File too large\n"
    assert sorted(path.name for path in tmp_path.glob("*/*")) == sorted([".lock", "index.json", digest_of(b"2")])
    assert [(file.name, file.data) for file in store.load("s")] == [("b", b"2")]


def test_a_file_that_has_taken_the_name_since_is_not_removed(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.merge("s", Change(put=[File(name="a", data=b"new")]), max_bytes=10)

    store.merge("s", Change(remove={"a": digest_of(b"old")}), max_bytes=10)

    assert [(file.name, file.data) for file in store.load("s")] == [("a", b"new")]


def test_a_process_whose_clock_is_ahead_removes_nothing_that_is_on_its_way(tmp_path: Path) -> None:
    FolderStore(tmp_path).merge("s", Change(put=[File(name="a", data=b"1")]), max_bytes=10)
    (folder,) = tmp_path.iterdir()
    (folder / ".part").write_bytes(b"3")

    subprocess.run([sys.executable, "-c", CLOCK_AHEAD, str(tmp_path)], check=True)

    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [".lock", ".part", "index.json", digest_of(b"1"), digest_of(b"2")]
    )


def test_a_part_that_somebody_removed_is_an_error_of_the_disk(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.merge("s", Change(put=[File(name="a", data=b"1")]), max_bytes=10)
    (folder,) = tmp_path.iterdir()
    errors: list[BaseException] = []

    def merge() -> None:
        try:
            store.merge("s", Change(put=[File(name="b", data=b"2")]), max_bytes=10)
        except (OSError, RuntimeError) as error:
            errors.append(error)

    writer = threading.Thread(target=merge)
    with (folder / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        writer.start()
        while not (parts := list(folder.glob(f".{digest_of(b'2')}.*"))):
            pass
        while not parts[0].stat().st_size:
            pass
        parts[0].unlink()
    writer.join()

    assert [type(error) for error in errors] == [FileNotFoundError]
    assert [(file.name, file.data) for file in store.load("s")] == [("a", b"1")]
