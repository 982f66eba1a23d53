import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from toolfold.models import ToolSpec
from toolfold.prompts.python_stubs import Stub, module_text, prompt_text, signature, tree, words_for, write_tree
from toolfold.prompts.schema_types import Types, expression

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NODE = {
    "type": "object",
    "properties": {"name": STRING, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    "required": ["name"],
}


def tool(name: str, properties: dict[str, Any] | None = None, **more: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties or {}, **more.pop("schema", {})}
    return ToolSpec(name=name, python_name=more.pop("python_name", name), input_schema=schema, **more)


GET_USERS = tool(
    "get_users",
    {
        "limit": {**INTEGER, "default": 10, "minimum": 1, "description": "At most this many."},
        "department": {**STRING, "description": "As in the org chart."},
        "order": {"enum": ["name", "age", None]},
        "address": {"type": "object", "properties": {"city": STRING}, "required": ["city"]},
    },
    schema={"required": ["department"], "additionalProperties": False},
    domain="hr",
    description="People of one department.",
    output_schema={
        "type": "array",
        "items": {"$ref": "#/$defs/Node"},
        "$defs": {"Node": NODE},
        "description": "A tree.",
    },
    examples=({"department": "sales"},),
)


def test_a_signature_has_types_defaults_notes_and_an_example() -> None:
    assert signature(GET_USERS) == snapshot('''\
async def get_users(
    *,
    department: str,
    limit: int = 10,
    order: Literal['name', 'age'] | None = ...,
    address: GetUsersAddress = ...,
) -> list[Node]:
    """People of one department.

    Parameters:
        department: As in the org chart.
        limit: At most this many. (at least 1)

    Returns: A tree.

    Example:
        await get_users(department='sales')
    """\
''')


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, "Any"),
        (False, "Never"),
        ({}, "Any"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": "number", "nullable": True}, "float | None"),
        ({"anyOf": [STRING, {"type": "null"}, INTEGER]}, "str | int | None"),
        ({"oneOf": [{"const": "a"}, {"const": 2}, {"const": True}]}, "Literal['a', 2, True]"),
        ({"enum": ["a", "b"], "type": "string"}, "Literal['a', 'b']"),
        ({"enum": [1.5, "a"]}, "float | Literal['a']"),
        ({"enum": [f"v{n}" for n in range(1000)]}, "str"),
        ({"anyOf": [STRING, {"const": "a"}]}, "str"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": STRING}, "list[str]"),
        ({"type": "array", "prefixItems": [STRING, INTEGER], "items": False}, "tuple[str, int]"),
        ({"type": "array", "items": [STRING, INTEGER], "maxItems": 2}, "tuple[str, int]"),
        ({"type": "array", "prefixItems": [STRING], "items": INTEGER}, "list[str | int]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": INTEGER}, "dict[str, int]"),
        ({"type": "object", "additionalProperties": False}, "dict[str, Never]"),
        ({"patternProperties": {"^x": INTEGER}, "additionalProperties": False}, "dict[str, int]"),
        ({"allOf": [STRING, {"minLength": 1}]}, "str"),
        ({"$ref": "#/nowhere"}, "Any"),
        ({"$ref": "https://example.com/schema.json"}, "Any"),
        ({"$ref": "#"}, "Any"),
        ({"type": "bogus"}, "Any"),
        ({"type": 3, "enum": "no list", "anyOf": {}}, "Any"),
        ({"type": "dict"}, "dict[str, Any]"),
    ],
    ids=str,
)
def test_a_schema_becomes_a_type(schema: Any, expected: str) -> None:
    assert expression(Types().of(schema, schema, "T")) == expected


def test_objects_become_records_and_a_recursive_one_names_itself() -> None:
    types = Types()
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}

    assert types.of(schema, schema, "T") == ("Node",)
    assert types.declarations == {
        "Node": "class Node(TypedDict):\n    name: str\n    children: NotRequired[list[Node]]"
    }


def test_all_of_joins_the_keys_of_its_members() -> None:
    types = Types()
    schema = {
        "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": INTEGER}, "required": ["b"]}],
        "$defs": {"A": {"type": "object", "properties": {"a": STRING}, "required": ["a"]}},
    }

    assert types.of(schema, schema, "Both") == ("Both",)
    assert types.declarations == {"Both": "class Both(TypedDict):\n    a: str\n    b: int"}


def test_keys_that_no_class_can_have_are_written_as_a_call() -> None:
    types = Types()
    schema = {"properties": {"from": STRING, "user-id": {"properties": {"str": STRING}}}, "required": ["from"]}

    types.of(schema, schema, "Mail")

    assert types.declarations == {
        "Mail": "Mail = TypedDict(\"Mail\", {\n    'from': 'str',\n    'user-id': 'NotRequired[MailUserId]',\n})",
        "MailUserId": "MailUserId = TypedDict(\"MailUserId\", {\n    'str': 'NotRequired[str]',\n})",
    }


def test_equal_records_are_declared_once_and_unequal_ones_of_one_name_apart() -> None:
    address = {"type": "object", "properties": {"city": STRING}}
    tools = [
        tool("order", {"ship": address, "bill": address}),
        tool("tree", {"a": {"$ref": "#/$defs/Node"}}, schema={"$defs": {"Node": NODE}}),
        tool("twig", {"a": {"$ref": "#/$defs/Node"}}, schema={"$defs": {"Node": NODE}}),
        tool("leaf", {"a": {"$ref": "#/$defs/Node"}}, schema={"$defs": {"Node": address}}),
    ]

    assert prompt_text(tools) == snapshot("""\
class OrderShip(TypedDict):
    city: NotRequired[str]

async def order(*, ship: OrderShip = ..., bill: OrderShip = ...) -> Any:
    ...

class Node(TypedDict):
    name: str
    children: NotRequired[list[Node]]

async def tree(*, a: Node = ...) -> Any:
    ...

async def twig(*, a: Node = ...) -> Any:
    ...

class Node2(TypedDict):
    city: NotRequired[str]

async def leaf(*, a: Node2 = ...) -> Any:
    ...
""")


def test_a_default_is_shown_where_it_has_the_type_and_told_where_not() -> None:
    spec = tool(
        "f",
        {
            "a": {**STRING, "default": None},
            "b": {**INTEGER, "default": "ten"},
            "c": {"type": "array", "items": STRING, "default": []},
            "d": {"type": "array", "default": [1]},
            "e": {"enum": ["x", "y"], "default": "x"},
            "g": {"type": "number", "default": 1},
        },
        schema={"required": ["a"]},
    )

    assert signature(spec) == snapshot('''\
async def f(
    *,
    a: str | None = None,
    b: int = ...,
    c: list[str] = [],
    d: list[Any] = ...,
    e: Literal['x', 'y'] = 'x',
    g: float = 1,
) -> Any:
    """Parameters:
        b: (default 'ten')
        d: (default [1])
    """\
''')


def test_arguments_that_are_no_identifiers_are_spelt_as_programs_write_them() -> None:
    spec = tool("f", {"user-id": STRING, "class": STRING, "a-b": STRING, "a_b": STRING, "1st": STRING})

    assert signature(spec) == snapshot('''\
async def f(*, user_id: str = ..., class_: str = ..., a_b: str = ..., **more: Any) -> Any:
    """Parameters:
        user_id: (the tool's 'user-id')
        class_: (the tool's 'class')
    """\
''')


@pytest.mark.parametrize("text", ['"""', 'a "quoted"', "back\\slash\\", "a\x00b\u202ec\rd", "\ud800", "# type: ignore"])
def test_any_description_gives_a_docstring_that_compiles_and_reads_the_same(text: str) -> None:
    seen = "".join(sign if sign.isprintable() else "\n" if sign == "\r" else "" for sign in text)

    definition = ast.parse(signature(tool("f", {}, description=text))).body[0]

    assert isinstance(definition, ast.AsyncFunctionDef)
    assert (ast.get_docstring(definition) or "") == seen


def test_a_description_of_two_megabytes_is_cut() -> None:
    spec = tool("f", {"a": {**STRING, "description": "y" * 2_000_000}}, description="x" * 2_000_000)

    assert len(prompt_text([spec])) < 5_000


def test_a_prompt_over_its_budget_loses_notes_then_signatures_and_tells_how_to_find_them() -> None:
    tools = [replace(GET_USERS, name=f"t{n}", python_name=f"t{n}") for n in range(30)]

    texts = {budget: prompt_text(tools, budget_characters=budget) for budget in (20_000, 9_000, 1_000)}

    assert [len(text) <= budget for budget, text in texts.items()] == [True, True, True]
    assert [text.count("Parameters:") for text in texts.values()] == [30, 0, 0]
    assert [text.count("async def") for text in texts.values()] == snapshot([30, 30, 3])
    assert texts[1_000].splitlines()[-1] == snapshot(
        '# and 2 more; find them with: await search_tools("what you need")'
    )


def test_the_stubs_are_a_tree_of_domains() -> None:
    tools = [replace(GET_USERS, name="my_tool", python_name="my_tool", domain="mydomain"), tool("alone")]

    files = tree(tools)

    assert sorted(files) == [
        "tools/__init__.py", "tools/alone.py", "tools/mydomain/__init__.py", "tools/mydomain/my_tool.py",
    ]  # fmt: skip
    assert files["tools/__init__.py"].splitlines()[2:] == [
        "from .alone import alone as alone",
        "from .mydomain import my_tool as my_tool",
    ]


def test_odd_names_stay_inside_the_tree_and_apart() -> None:
    tools = [
        tool("日本", python_name="tool_ab12cd", domain="../../etc"),
        tool("hr"),
        tool("x", domain="hr"),
        tool("Get", domain="hr"),
        tool("get", domain="hr"),
        tool("class", python_name="class_tool", domain="class"),
    ]

    assert sorted(tree(tools)) == [
        "tools/______etc/__init__.py", "tools/______etc/tool_ab12cd.py", "tools/__init__.py",
        "tools/class_/__init__.py", "tools/class_/class_tool.py", "tools/hr/Get.py", "tools/hr/__init__.py",
        "tools/hr/get_.py", "tools/hr/x.py", "tools/hr_.py",
    ]  # fmt: skip


def test_a_tree_written_again_loses_the_tools_that_are_gone_and_keeps_foreign_files(tmp_path: Path) -> None:
    write_tree([GET_USERS, tool("alone")], tmp_path)
    (tmp_path / "tools/notes.py").write_text("mine = 1\n")

    write_tree([GET_USERS], tmp_path)

    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.py"))
    assert left == ["tools/__init__.py", "tools/hr/__init__.py", "tools/hr/get_users.py", "tools/notes.py"]


def test_stubs_on_disk_import_and_run_the_body_that_they_were_given(tmp_path: Path) -> None:
    def body(stub: Stub) -> str:
        return f"return call({stub.spec.name!r}, {', '.join(one.python_name for one in stub.parameters)})"

    write_tree([GET_USERS], tmp_path, body=body, imports="call = lambda *arguments: arguments[:3]")
    program = (
        "import asyncio, tools, tools.hr; print(asyncio.run(tools.hr.get_users(department='sales')), tools.get_users)"
    )

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout.partition(" <function")[0] == "('get_users', 'sales', 10)"


def test_a_module_holds_all_tools_and_imports_only_what_it_uses() -> None:
    text = module_text([tool("a", {"x": STRING}, output_schema=STRING), tool("b", output_schema=INTEGER)])

    assert text == snapshot("""\
# Written by toolfold; changes are lost when it is written again.

from __future__ import annotations


async def a(*, x: str = ...) -> str:
    raise NotImplementedError


async def b() -> int:
    raise NotImplementedError
""")


@pytest.mark.parametrize("program", ["help(get_users)", "import inspect\ninspect.signature(tools.get_users)"])
def test_a_program_that_looks_at_tools_is_told_their_words(program: str) -> None:
    assert words_for(program, [GET_USERS, tool("other")]) == {
        "get_users": snapshot((
            "(*, department: str, limit: int = 10, order: Literal['name', 'age'] | None = ..., address: GetUsersAddress = ...) -> list[Node]",
            """\
People of one department.

Parameters:
    department: As in the org chart.
    limit: At most this many. (at least 1)

Returns: A tree.

Example:
    await get_users(department='sales')

class GetUsersAddress(TypedDict):
    city: str

class Node(TypedDict):
    name: str
    children: NotRequired[list[Node]]\
""",
        ))
    }  # fmt: skip


def test_a_program_that_does_not_look_at_them_costs_nothing() -> None:
    assert words_for("print(await get_users(department='helper'))", [GET_USERS]) == {}


BOMB = {
    f"A{n}": {"properties": {f"p{k}": {"anyOf": [{"$ref": f"#/$defs/A{n + 1}"}, {"properties": {"u": {"$ref": f"#/$defs/A{n + 1}"}}}] * 8} for k in range(50)}}
    for n in range(30)
}  # fmt: skip
CIRCLE = {"A": {"allOf": [{"$ref": "#/$defs/A"}] * 20, "properties": {"y": {"allOf": [{"$ref": "#/$defs/A"}] * 20}}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"$ref": "#/$defs/A0"}}, "$defs": BOMB},
        {"properties": {"x": {"$ref": "#/$defs/A"}}, "$defs": CIRCLE},
        {"properties": {f"p{n}": {"properties": {f"q{k}": STRING for k in range(200)}} for n in range(200)}},
        {"properties": {f"x{n}": STRING for n in range(20_000)}},
        {"properties": {"x": {"enum": [str(n) * 50 for n in range(20_000)]}}},
    ],
    ids=["bomb", "circle", "wide", "many", "enum"],
)
def test_a_schema_made_to_explode_gives_a_short_text(schema: dict[str, Any]) -> None:
    text = prompt_text([ToolSpec(name="f", python_name="f", input_schema=schema)])

    ast.parse(text)
    assert len(text) < 20_000
