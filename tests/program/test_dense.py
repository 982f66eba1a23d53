"""Tools as one dense text: what a reader who never saw the form needs to write the call."""

import ast
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from tests.program.server_schemas import SERVERS, items, record, tool
from tests.program.test_stubs_properties import SPECS
from toolfold.models import ToolSpec
from toolfold.prompts.catalog import HEADER, dense_text, dense_within
from toolfold.prompts.signatures import LONGEST_SIGNATURE
from toolfold.prompts.wording import width


def spec(name: str, description: str = "", properties: object = None, *required: str, **fields: object) -> ToolSpec:
    schema = {"type": "object", "properties": properties or {}, "required": list(required)}
    return ToolSpec(name=name, python_name=name, description=description, input_schema=schema, **fields)  # type: ignore[arg-type]


def test_a_line_has_the_call_and_the_reply_and_the_words_stand_under_it() -> None:
    tweet = {"type": "object", "properties": {"id": {"type": "integer"}, "tags": items({"type": "string"})}}
    tags = {"type": "array", "items": {"type": "string"}, "default": [], "description": "Each starts with #."}
    post = spec(
        "post_tweet", "Post a tweet.", {"content": {"type": "string", "description": "The content of the tweet."}, "tags": tags},
        "content", output_schema=tweet,
    )  # fmt: skip

    assert dense_text([post]) == snapshot("""\
post_tweet(content: str, tags: list[str] = []) -> {id: int, tags: list[str]}
  Post a tweet. tags: Each starts with #\
""")


def test_the_tools_of_public_servers_read_right() -> None:
    texts = {name: dense_text(specs) for name, specs in SERVERS.items()}

    assert texts == snapshot(
        {
            "everything": """\
mcp__everything__echo(message: str)
  Gives the message back
mcp__everything__get_links(count: float = 3)
  Links to resources of several kinds. count: How many links (≥ 1, ≤ 10)
mcp__everything__get_weather(city: "New York"|"Chicago") -> {temperature: float, conditions: str}
  The weather of one city.\
""",
            "files": """\
# files: Works only inside the allowed folders.
mcp__files__read_text_file(path: str, head?: float) -> {content: str}
  Read one file as text. head: Only the first N lines
mcp__files__edit_file(path: str, edits: list[{oldText: str, newText: str}], dryRun: bool = False) -> {content: str}
  Replace lines of a text file. edits.oldText: Must match exactly; dryRun: Show the diff and change nothing\
""",
            "memory": """\
Entity = {name: str, entityType: str, observations: list[str]}
Graph = {entities: list[Entity], relations: list[{"from": str, to: str, relationType: str}]}
mcp__memory__create_entities(entities: list[Entity]) -> {entities: list[Entity]}
  Add entities to the graph
mcp__memory__read_graph() -> Graph
  The whole graph
mcp__memory__open_nodes(names: list[str]) -> Graph
  Some nodes of the graph, by name\
""",
            "thinking": """\
mcp__thinking__think(thought: str, thoughtNumber: int, branchId?: str)
  Take one step of a longer thought. thought: Your current thinking step; thoughtNumber: Current thought number (e.g. 1, 2, 3)\
""",
            "time": """\
mcp__time__convert_time(source_timezone: str, time: str)
  Convert a time from one zone to another. source_timezone: IANA name such as 'Europe/London'; time: 24-hour format (HH:MM)\
""",
            "git": """\
mcp__git__git_log(repo_path: str, max_count: int = 10, since?: str) -> {result: list[str]}
  Shows the commit logs. since: Start timestamp, ISO 8601 or relative ('2 weeks ago')\
""",
            "duck": """\
mcp__duck__query(sql: str) -> {rows: list[list], columns: list[str], truncated?: bool}
  Run one SQL statement. Args: sql: In DuckDB's dialect\
""",
            "excel": """\
mcp__excel__set_cells(path: str, sheet: str, values: list[list[str|float|bool|None]], style?: {bold?: bool, colour?: str}) -> dict[str, int]
  Write values into a range. Formulas start with '='. style.colour: matches ^#[0-9a-f]{6}$\
""",
        }
    )


def test_sentences_that_all_tools_of_a_group_begin_with_are_said_once() -> None:
    start = "This tool belongs to the library. It has books and readers. "
    some = [spec("find", f"{start}Find a book."), spec("lend", f"{start}Lend a book."), spec("now", "The time.")]

    assert dense_text(some) == snapshot("""\
# This tool belongs to the library. It has books and readers.
find()
  Find a book.
lend()
  Lend a book.
# others
now()
  The time.\
""")


def test_records_that_several_tools_share_are_named_once() -> None:
    words = {"type": "string"}
    person = record("name", "born", name=words, born=words, town=words, languages=items(words))
    both = [
        tool("hr", "find_people", "", {"query": {"type": "string"}}, "query", output_schema=items(person)),
        tool("hr", "save_people", "", {"people": items(person)}, "people"),
    ]

    assert dense_text(both) == snapshot("""\
People = {name: str, born: str, town?: str, languages?: list[str]}
mcp__hr__find_people(query: str) -> list[People]
mcp__hr__save_people(people: list[People])\
""")


def test_a_shape_that_was_learned_is_told_as_seen_and_a_declared_one_wins() -> None:
    learned = {"a": record("id", id={"type": "integer"}), "b": record("no", no={"type": "integer"})}
    declared = {"type": "array", "items": {"type": "string"}}

    text = dense_text([spec("a", "Words."), spec("b", output_schema=declared), spec("c")], learned=learned)

    assert text == "a() -> {id: int}  # as seen\n  Words.\nb() -> list[str]\nc()"


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 100}, "f(x: int)\n  x: ≥ 1, ≤ 100"),
        ({"type": "integer", "minimum": 1, "description": "From 1 on"}, "f(x: int)\n  x: From 1 on"),
        ({"type": "integer", "maximum": 2**63}, "f(x: int)"),
        ({"type": "string", "format": "date-time"}, "f(x: str)\n  x: date-time"),
        ({"type": "string", "pattern": "^[A-Z]{3}$"}, "f(x: str)\n  x: matches ^[A-Z]{3}$"),
        ({"enum": ["a", 'say "b"', 3, None, True]}, 'f(x: "a"|"say \\"b\\""|3|None|True)'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "f(x: str|None)"),
        ({"type": ["string", "integer"]}, "f(x: str|int)"),
        ({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": False}, "f(x: tuple[float, str])"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "f(x: dict[str, int])"),
        ({"type": "object", "properties": {"a b": {}, "class": {"type": "null"}}}, 'f(x: {"a b"?: Any, "class"?: None})'),
        ({"$ref": "#"}, "f(x: {x: dict})"),
        ({"description": "The x."}, "f(x: Any)"),
        ({"description": "日本語の説明"}, "f(x: Any)\n  x: 日本語の説明"),
    ],
)  # fmt: skip
def test_types_choices_and_limits_of_an_argument(schema: object, written: str) -> None:
    assert dense_text([spec("f", "", {"x": schema}, "x")]) == written


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, "f(x?: str)"),
        ({"type": "string", "default": "a"}, 'f(x: str = "a")'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, "f(x?: str)"),
        ({"type": "integer", "default": 5, "description": "Optional. Rows to skip, defaults to 5."}, "f(x: int = 5)\n  x: Rows to skip"),
        ({"type": "string", "default": "a" * 100}, "f(x?: str)"),
    ],
)  # fmt: skip
def test_arguments_that_may_be_left_out_are_marked_or_have_their_default(schema: object, written: str) -> None:
    assert dense_text([spec("f", "", {"x": schema})]) == written


def test_an_example_is_among_the_notes() -> None:
    given_ = spec("f", "Words", {"user-id": {"type": "string"}}, "user-id", examples=({"user-id": "U1"},))

    assert dense_text([given_]) == 'f(user_id: str)\n  Words. e.g. f(user_id="U1")'


def test_a_tool_that_takes_anything_says_so() -> None:
    anything = ToolSpec(name="f", python_name="f")

    assert dense_text([anything]) == "f(...)"


def signatures(text: str) -> list[str]:
    return [
        line
        for line in text.split("\n")
        if line and not line.startswith(("#", " ")) and " = {" not in line.partition("(")[0]
    ]


def as_python(signature: str) -> str:
    """The form as Python: only its marks are none."""
    strings = r'"(?:[^"\\]|\\.)*"'
    plain = re.sub(rf"({strings})|\?(?=:)", lambda found: found[1] or "", signature.removesuffix("  # as seen"))
    plain = re.sub(rf"({strings})|, \.\.\.(?=[}})])", lambda found: found[1] or "", plain)
    plain = re.sub(rf"({strings})|(?<=[{{(])\.\.\.", lambda found: found[1] or "", plain)
    # Parameters with a default may stand before others here.
    return "def " + plain.replace("(", "(*, ", 1).replace("(*, )", "()", 1) + ": ..."


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(one=SPECS)
def test_every_schema_gives_one_line_that_reads_as_python_within_its_length(one: ToolSpec) -> None:
    text = dense_text([one])

    [line] = signatures(text)
    assert len(line) <= LONGEST_SIGNATURE + 40
    assert len(text) <= 6_000
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    ast.parse(as_python(line).encode())


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    specs=st.lists(SPECS, max_size=6, unique_by=lambda one: one.name),
    room=st.integers(0, 3000),
    overview=st.integers(0, 3000),
)
def test_a_text_keeps_to_its_room_whatever_the_tools_are(specs: list[ToolSpec], room: int, overview: int) -> None:
    told = dense_within(specs, room, overview=overview)

    assert width(told.text) <= room
    assert not told.is_all or len(signatures(told.text)) >= len(specs)


def test_the_header_explains_the_form_in_few_words() -> None:
    # 35 tokens of o200k; `make bench NAME=savings` counts them.
    assert len(HEADER) <= 160
