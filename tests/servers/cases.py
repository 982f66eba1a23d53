"""One program for each real server: at least two of its tools, one by one and together, values checked.

`FOLDER` is a folder that the servers may write to.
"""

from dataclasses import dataclass

from tests.servers.install import npm_command, python_command
from toolfold.sources.mcp import Server


@dataclass(frozen=True)
class Case:
    """A server, and what to do with it."""

    package: str
    command: str
    program: str
    together: str
    """One call, made at once with those of all other servers."""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    is_npm: bool = False

    @property
    def name(self) -> str:
        """Of the server in the bridge."""
        return self.package.rpartition("/")[2]

    def server(self, folder: str) -> Server:
        """With the folder filled in."""
        args = [one.replace("FOLDER", folder) for one in self.args]
        env = {key: value.replace("FOLDER", folder) for key, value in self.env}
        return Server(name=self.name, command=self.command, args=args, env=env)


CASES = (
    Case(
        "@modelcontextprotocol/server-everything",
        npm_command("everything"),
        """
import asyncio
from tools.server_everything import echo, get_sum, get_tiny_image, get_structured_content
assert await echo(message="hello") == "Echo: hello"
sums = await asyncio.gather(*(get_sum(a=n, b=1) for n in range(10)))
assert [f"{n + 1}" in text for n, text in enumerate(sums)] == [True] * 10, sums
parts = await get_tiny_image()
images = [part for part in parts if not isinstance(part, str)]
assert (images[0].mime, images[0].data[1:4]) == ("image/png", b"PNG"), parts
weather = await get_structured_content(location="New York")
assert set(weather) == {"temperature", "conditions", "humidity"}, weather
assert any("architecture" in one["uri"] for one in await list_resources("server-everything"))
greeting = await get_prompt("server-everything", "simple-prompt")
assert greeting[0]["role"] == "user", greeting
""",
        'mcp__server_everything__echo(message="x")',
        is_npm=True,
    ),
    Case(
        "@modelcontextprotocol/server-filesystem",
        npm_command("filesystem"),
        """
import asyncio
from tools.server_filesystem import write_file, read_text_file, list_directory, get_file_info
await asyncio.gather(*(write_file(path=f"FOLDER/{n}.txt", content=f"text {n}") for n in range(5)))
texts = await asyncio.gather(*(read_text_file(path=f"FOLDER/{n}.txt") for n in range(5)))
assert [one["content"] for one in texts] == [f"text {n}" for n in range(5)], texts
listed = await list_directory(path="FOLDER")
assert all(f"{n}.txt" in listed["content"] for n in range(5)), listed
try:
    await read_text_file(path="/etc/passwd")
    raise AssertionError("it read what it must not")
except ToolError as error:
    assert "Access denied" in str(error), error
""",
        "mcp__server_filesystem__list_allowed_directories()",
        args=("FOLDER",),
        is_npm=True,
    ),
    Case(
        "@modelcontextprotocol/server-memory",
        npm_command("memory"),
        """
from tools.server_memory import create_entities, create_relations, read_graph, search_nodes
people = [{"name": name, "entityType": "person", "observations": [f"is {name}"]} for name in ("Ann", "Bob")]
made = await create_entities(entities=people)
assert [one["name"] for one in made["entities"]] == ["Ann", "Bob"], made
await create_relations(relations=[{"from": "Ann", "to": "Bob", "relationType": "knows"}])
import asyncio
graph, found = await asyncio.gather(read_graph(), search_nodes(query="Bob"))
assert (len(graph["entities"]), len(graph["relations"])) == (2, 1), graph
assert [one["name"] for one in found["entities"]] == ["Bob"], found
""",
        "mcp__server_memory__read_graph()",
        env=(("MEMORY_FILE_PATH", "FOLDER/memory.jsonl"),),
        is_npm=True,
    ),
    Case(
        "@modelcontextprotocol/server-sequential-thinking",
        npm_command("sequential-thinking"),
        """
from tools.server_sequential_thinking import sequentialthinking
for number in (1, 2):
    last = await sequentialthinking(
        thought=f"step {number}", nextThoughtNeeded=number < 2, thoughtNumber=number, totalThoughts=2
    )
assert (last["thoughtNumber"], last["nextThoughtNeeded"], last["thoughtHistoryLength"]) == (2, False, 2), last
""",
        'mcp__server_sequential_thinking__sequentialthinking("x", False, 1, 1)',
        is_npm=True,
    ),
    Case(
        "mcp-server-time",
        python_command("mcp-server-time"),
        """
import asyncio
from tools.mcp_server_time import get_current_time, convert_time
zones = ["Europe/Berlin", "Asia/Tokyo", "UTC"]
times = await asyncio.gather(*(get_current_time(timezone=zone) for zone in zones))
assert [one["timezone"] for one in times] == zones, times
there = await convert_time(source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
assert "T21:00" in there["target"]["datetime"], there
""",
        'mcp__mcp_server_time__get_current_time(timezone="UTC")',
    ),
    Case(
        "mcp-server-git",
        python_command("mcp-server-git"),
        """
import asyncio
from tools.mcp_server_git import git_status, git_add, git_commit, git_log
repo = "FOLDER/repo"
assert "note.txt" in str(await git_status(repo_path=repo))
await git_add(repo_path=repo, files=["note.txt"])
await git_commit(repo_path=repo, message="Add a note")
log, status = await asyncio.gather(git_log(repo_path=repo, max_count=1), git_status(repo_path=repo))
assert "Add a note" in str(log) and "clean" in str(status), (log, status)
""",
        'mcp__mcp_server_git__git_status(repo_path="FOLDER/repo")',
        args=("--repository", "FOLDER/repo"),
    ),
    Case(
        "mcp-server-motherduck",
        python_command("mcp-server-motherduck"),
        """
import asyncio
from tools.mcp_server_motherduck import execute_query, list_columns, list_tables
await execute_query(sql="create table sales as select range as id, range * 2 as amount from range(10)")
# One by one: this server mixes up the rows of queries that run at once, whoever its client is.
sums = [await execute_query(sql=f"select sum(amount) as total from sales where id < {n}") for n in (5, 10)]
assert [one["rows"] for one in sums] == [[[20]], [[90]]], sums
tables = await list_tables()
assert "sales" in str(tables), tables
assert "amount" in str(await list_columns(table="sales"))
""",
        "mcp__mcp_server_motherduck__list_databases()",
        args=("--db-path", ":memory:", "--read-write"),
    ),
    Case(
        "excel-mcp-server",
        python_command("excel-mcp-server"),
        """
import asyncio
from tools.excel_mcp_server import create_workbook, write_range, read_range, describe_workbook
path = "FOLDER/book.xlsx"
await create_workbook(path=path, sheets=["Sales"])
await write_range(path=path, sheet="Sales", at="A1", rows=[["name", "amount"], ["Ann", 1], ["Bob", 2]])
cells, book = await asyncio.gather(read_range(path=path, sheet="Sales"), describe_workbook(path=path))
assert "Bob" in str(cells) and "Sales" in str(book), (cells, book)
""",
        'mcp__excel_mcp_server__describe_workbook(path="FOLDER/book.xlsx")',
        args=("stdio",),
    ),
)
