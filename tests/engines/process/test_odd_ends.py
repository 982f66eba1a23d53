"""Programs whose end is hard to tell: they end as their own exception, never as a broken conversation."""

import gzip
import io
import os
import resource
import zipfile
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from toolfold.errors import EngineCrashed
from toolfold.runtime import Runtime

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(engine="process") as runtime:
        yield runtime


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise ValueError('a\\ud800b')", r"ValueError: a\ud800b"),
        ("class Odd\ud800(Exception): pass\nraise Odd\ud800".replace("\ud800", "X"), "OddX"),
        ("e = ValueError('x')\nfor _ in range(2000):\n    e = ExceptionGroup('g', [e])\nraise e", "ExceptionGroup: g (1 sub-exception)"),
        ("class Mine(SyntaxError): pass\nraise Mine('odd', ('f', 'one', 2, 3))", None),
        ("e = SyntaxError('odd')\ne.lineno = object()\ne.text = 5\ne.filename = 7\nraise e", None),
        ("class Bad(Exception):\n    def __str__(self): raise RuntimeError('no')\nraise Bad", "Bad: <exception str() failed>"),
        ("def f():\n    try:\n        f()\n    except RecursionError as e:\n        raise RecursionError('again') from e\nf()", None),
        ("class Bad(Exception):\n    @property\n    def __cause__(self): raise KeyError\nraise Bad", None),
        ("e = None\nfor n in range(3000):\n    try:\n        raise ValueError(n) from e\n    except ValueError as new:\n        e = new\nraise e", "ValueError: 2999"),
        ("import sys\nsys.stdout.close()\nsys.stderr.close()\nraise ValueError('late')", "ValueError: late"),
    ],
)  # fmt: skip
async def test_an_odd_exception_ends_the_program_as_itself(text: str, message: str | None, runtime: Runtime) -> None:
    outcome = await runtime.run(text)

    assert outcome.status == "failed"
    assert outcome.problem is not None
    assert outcome.problem.kind == "exception"
    if message is not None:
        assert outcome.problem.message == message


async def test_the_files_of_a_session_are_flushed_after_each_program(runtime: Runtime) -> None:
    first = await runtime.run("f = open('a.txt', 'w')\nf.write('one')", session="odd-ends", keep_names=True)
    second = await runtime.run("f.write(' two')\nf.close()\nopen('a.txt').read()", session="odd-ends", keep_names=True)

    assert [(file.name, file.data) for file in first.files] == [("a.txt", b"one")]
    assert second.value == "one two"


async def test_the_next_program_of_a_session_finds_its_streams_as_every_program_does(runtime: Runtime) -> None:
    spoils = "import sys\nsys.stdout.close()\nsys.stdout = sys.__stdout__ = sys.__stderr__ = None"
    uses = "import sys\nprint('out')\nsys.__stdout__.write('again')\nsys.__stderr__.write('err')\nNone"

    await runtime.run(spoils, session="streams", keep_names=True)
    outcome = await runtime.run(uses, session="streams", keep_names=True)

    assert (outcome.status, outcome.stdout, outcome.stderr) == ("finished", "out\nagain", "err")


async def test_a_program_that_leaves_no_call_unmade_finds_the_librarys_own_functions(runtime: Runtime) -> None:
    text = "import inspect, json\n[inspect.iscoroutine.__module__, json.JSONEncoder.default.__module__]"

    outcome = await runtime.run(text)

    assert outcome.value == ["inspect", "json.encoder"]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("f = open('o', 'w')\nf.write('a')", b"a"),
        ("import csv\nw = csv.writer(open('o', 'w', newline=''))\nw.writerow([1, 2])", b"1,2\r\n"),
        ("def save():\n    global f\n    f = open('o', 'wb')\n    f.write(b'a')\nsave()", b"a"),
        ("class Log:\n    def __init__(self): self.f = open('o', 'w')\nlog = Log()\nlog.f.write('a')", b"a"),
        (
            "class Log:\n    def __init__(self): self.f = open('o', 'w'); self.me = self\nlog = Log()\nlog.f.write('a')",
            b"a",
        ),
        ("import pathlib\nf = pathlib.Path('o').open('w')\nprint('a', file=f, end='')", b"a"),
        ("import io\nf = io.open('o', 'w')\nf.write('a')\nimport sys\nsys.exit(0)", b"a"),
        (
            "import asyncio\nasync def main():\n    global f\n    f = open('o', 'w')\n    f.write('a')\nasyncio.run(main())",
            b"a",
        ),
        ("import logging\nlogging.basicConfig(filename='o', format='%(message)s')\nlogging.warning('a')", b"a\n"),
        ("import json\nf = open('o', 'w')\njson.dump([1], f)\nfs = [f]\nfs.append(fs)\ndel f", b"[1]"),
    ],
)
async def test_a_file_that_is_left_open_is_written_whole(text: str, data: bytes, runtime: Runtime) -> None:
    outcome = await runtime.run(text)

    assert [(file.name, file.data) for file in outcome.files] == [("o", data)]


async def test_compressed_files_left_open_are_whole(runtime: Runtime) -> None:
    text = (
        "import gzip, zipfile\ng = gzip.open('o.gz', 'wt')\ng.write('a' * 100)\n"
        "z = zipfile.ZipFile('o.zip', 'w')\nz.writestr('a.txt', 'a')"
    )
    outcome = await runtime.run(text)

    files = {file.name: file.data for file in outcome.files}
    assert gzip.decompress(files["o.gz"]) == b"a" * 100
    assert zipfile.ZipFile(io.BytesIO(files["o.zip"])).read("a.txt") == b"a"


async def test_a_host_without_descriptors_tells_of_no_end_that_lacks_the_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def starve() -> str:
        """Leave this process no descriptor."""
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        return "starved"

    text = "open('kept.txt', 'w').write('all of it')\nawait starve()"
    async with Runtime([starve]) as runtime:
        try:
            with pytest.raises(EngineCrashed) as caught:
                await runtime.run(text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert (str(caught.value), caught.value.started) == (
        "the program's files cannot be read: Too many open files",
        ("starve",),
    )
