"""Files under a root folder as tools: what they do, and that nothing leads out."""

import os

import pytest

from toolfold.errors import ToolError, UsageError
from toolfold.models import Call
from toolfold.sources.file_tools import file_tools
from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\nTwo\n")
    (folder / "sub" / "b.py").write_text("two = 2\n")
    (folder / "raw.bin").write_bytes(b"\xff\x00two")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def call(root):
    router = Router(Catalog(file_tools("docs", root, write=True, max_bytes=1000)))

    async def answer(tool: str, **arguments):
        reply = await router.serve(Call(id=1, tool=f"docs_{tool}", arguments=arguments))
        if reply.error is not None:
            raise ToolError(reply.error)
        return reply.value

    return answer


async def test_a_file_is_read_as_text_or_as_bytes_and_json_stays_text(call, root) -> None:
    (root / "c.json").write_text('{"a": 1}')

    assert await call("read_file", path="a.txt") == "one\nTwo\n"
    assert await call("read_file", path="raw.bin") == b"\xff\x00two"
    assert await call("read_file", path="c.json") == '{"a": 1}'


async def test_files_are_listed_with_their_sizes(call) -> None:
    everything = await call("list_files")
    below = await call("list_files", path="sub")
    fitting = await call("list_files", pattern="*.py")

    assert everything == [
        {"path": "a.txt", "size": 8},
        {"path": "raw.bin", "size": 5},
        {"path": "sub/b.py", "size": 8},
    ]
    assert below == fitting == [{"path": "sub/b.py", "size": 8}]


async def test_lines_are_found_in_either_case_and_only_in_text(call) -> None:
    assert await call("search_files", query="TWO") == [
        {"path": "a.txt", "line": 2, "text": "Two"},
        {"path": "sub/b.py", "line": 1, "text": "two = 2"},
    ]


async def test_a_file_is_written_whole_with_the_folders_on_the_way(call, root) -> None:
    written = await call("write_file", path="new/deep/c.txt", content="é")

    assert written == {"path": "new/deep/c.txt", "size": 2}
    assert (root / "new" / "deep" / "c.txt").read_text() == "é"
    assert sorted(os.listdir(root / "new" / "deep")) == ["c.txt"]


@pytest.mark.parametrize("path", ["../secret.txt", "sub/../../secret.txt", "/etc/passwd", "sub/..", "a\0b"])
@pytest.mark.parametrize("tool", ["read_file", "write_file", "list_files"])
async def test_no_path_leads_out(call, tool, path) -> None:
    extra = {"content": "x"} if tool == "write_file" else {}
    with pytest.raises(ToolError) as error:
        await call(tool, path=path, **extra)

    assert str(error.value) == (
        f"'docs_{tool}' failed: {path!r} is outside the folder; give a path below it, without '..'"
    )


@pytest.mark.parametrize("link", ["link", "door/secret.txt"])
async def test_no_link_leads_out_neither_as_a_file_nor_as_a_folder(call, root, link) -> None:
    (root / "link").symlink_to("../secret.txt")
    (root / "door").symlink_to("..")

    with pytest.raises(ToolError) as error:
        await call("read_file", path=link)
    listed = [one["path"] for one in await call("list_files")]

    assert str(error.value) == (
        f"'docs_read_file' failed: {link!r} goes through a link or a file; links are not followed"
    )
    assert listed == ["a.txt", "raw.bin", "sub/b.py"]


async def test_writing_over_a_link_replaces_the_link_and_leaves_its_target(call, root) -> None:
    (root / "link").symlink_to("../secret.txt")

    await call("write_file", path="link", content="mine")

    assert (root.parent / "secret.txt").read_text() == "secret"
    assert (root / "link").read_text() == "mine"
    assert not (root / "link").is_symlink()


async def test_what_is_too_large_missing_or_no_file_is_told(call, root) -> None:
    (root / "large").write_bytes(b"x" * 1001)
    os.mkfifo(root / "pipe")
    messages = []
    for path in ("large", "nothing", "sub", "pipe", "."):
        with pytest.raises(ToolError) as error:
            await call("read_file", path=path)
        messages.append(str(error.value).removeprefix("'docs_read_file' failed: "))

    assert messages == [
        "'large' has 1001 bytes; the limit is 1000",
        "no file 'nothing'",
        "'sub' is not a file",
        "'pipe' is not a file",
        "'.' is a folder; name a file in it",
    ]


def test_without_write_there_is_no_tool_that_writes_and_a_missing_root_is_told(root) -> None:
    names = [tool.spec.name for tool in file_tools("docs", root)]

    assert names == ["docs_read_file", "docs_list_files", "docs_search_files"]
    with pytest.raises(UsageError) as error:
        file_tools("docs", root / "none")
    assert str(error.value).endswith("is not a folder; create it first")
