"""Programs write where other sandboxes have them write; only the data folder is theirs to return."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from toolfold.models import MIB, Limits
from toolfold.runtime import Runtime

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(engine="process") as runtime:
        yield runtime


@pytest.mark.parametrize(
    "path",
    [
        "/workspace/out.txt", "/content/out.txt", "/home/user/out.txt", "../out.txt", "/out.txt", "/mnt/out.txt",
        "/app/output/out.txt", "/kaggle/working/out.txt", "/home/sandbox/a/b/out.txt", "../results/out.txt",
    ],
)  # fmt: skip
async def test_a_program_writes_outside_its_data_folder_and_is_told_that_the_file_is_not_returned(
    path: str, runtime: Runtime
) -> None:
    outcome = await runtime.run(
        f"import os\nos.makedirs(os.path.dirname('{path}'), exist_ok=True)\nopen('{path}', 'w').write('text')\n"
        f"open('{path}').read()"
    )

    full = path.replace("..", "/mnt")
    assert (outcome.status, outcome.value, outcome.files) == ("finished", "text", ())
    assert outcome.hints == (f"only files in /mnt/data, the working directory, are returned, not {full!r}",)


@pytest.mark.parametrize("path", ["/usr/x", "/py/x", "/lib/x", "/etc/passwd", "/dev/x", "/.tree/x", "/usr/lib/x"])
async def test_the_interpreter_and_the_system_stay_read_only(path: str, runtime: Runtime) -> None:
    outcome = await runtime.run(f"open({path!r}, 'w')")

    assert outcome.problem is not None
    assert outcome.problem.message == f"OSError: [Errno 30] Read-only file system: {path!r}"


async def test_the_root_and_the_data_folder_have_one_limit(runtime: Runtime) -> None:
    text = (
        "import os\nsizes, files = 0, 0\ntry:\n    while True:\n"
        "        with open(('/content/', '', '/')[files % 3] + f'part {files}', 'wb') as file:\n"
        "            sizes += file.write(bytes(SIZE))\n        files += 1\n"
        "except OSError as error:\n    code = error.errno\n[sizes, files, code]"
    )
    limits = Limits(data_bytes=4 * MIB, data_files=60, temp_bytes=MIB)

    by_size = await runtime.run(text.replace("SIZE", str(MIB // 4)), limits=limits)
    by_files = await runtime.run(text.replace("SIZE", "0"), limits=limits)

    assert (by_size.value, by_files.value) == ([4 * MIB, 16, 28], [0, 60, 28])


async def test_a_program_that_removes_its_data_folder_still_returns_files(runtime: Runtime) -> None:
    outcome = await runtime.run(
        "import os, shutil\nopen('old', 'w').close()\nshutil.rmtree('/mnt/data', ignore_errors=True)\n"
        "os.makedirs('/mnt/data', exist_ok=True)\nopen('/mnt/data/new', 'w').close()"
    )

    assert (outcome.status, [file.name for file in outcome.files]) == ("finished", ["new"])


async def test_a_program_that_removes_its_own_root_hurts_only_itself(runtime: Runtime) -> None:
    first = await runtime.run("import shutil\nshutil.rmtree('/', ignore_errors=True)\nprint('gone')")
    second = await runtime.run("import colorsys, os\nos.path.exists('/usr/lib')")

    assert (first.status, first.stdout, second.value) == ("finished", "gone\n", True)


async def test_of_a_session_only_the_data_folder_lives_on(runtime: Runtime) -> None:
    await runtime.run("open('/content/a', 'w').close()\nopen('b', 'w').close()", session="files")
    outcome = await runtime.run("import os\n[os.listdir('/content'), os.listdir('.')]", session="files")

    assert outcome.value == [[], ["b"]]


async def test_at_the_landlock_level_only_the_data_folder_and_the_temporary_folder_are_writable() -> None:
    async with Runtime(engine="process", engine_options={"isolation": "landlock"}) as runtime:
        outcome = await runtime.run(
            "import os, tempfile\nresult = []\n"
            "for path in ('/content/a', '/workspace/a', '../a', '/a', 'a', tempfile.gettempdir() + '/a'):\n"
            "    try:\n        open(path, 'w').close()\n        result.append(True)\n"
            "    except OSError:\n        result.append(False)\nresult"
        )

    assert outcome.value == [False, False, False, False, True, True]
