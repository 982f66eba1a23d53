import json
import logging

import pytest

from tests.sources.openapi.serving import Answer, Serving, called
from toolfold.errors import UsageError
from toolfold.sources.openapi.document import DocumentStore, read_document
from toolfold.sources.openapi.operations import read_operations
from toolfold.sources.openapi.source import Api, api_tools, openapi_tools


def written(tmp_path, document, name="shop.json"):
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def document(paths, **more):
    return {
        "openapi": "3.0.3",
        "info": {"title": "Shop"},
        "servers": [{"url": "https://shop.example"}],
        "paths": paths,
        **more,
    }


def operation(**more):
    return {
        "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": {"type": "object"}}}}},
        **more,
    }


def tools_of(tmp_path, given, **options):
    return openapi_tools(written(tmp_path, given), name="shop", **options)


def test_operations_become_tools_with_names_annotations_and_schemas(tmp_path):
    paths = {
        "/items/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "get": operation(operationId="getItem", summary="One item"),
            "delete": {"responses": {"204": {"description": "gone"}}},
            "put": operation(operationId="items/replace", deprecated=True),
        }
    }

    tools = tools_of(tmp_path, document(paths))

    shown = [
        (one.spec.name, one.spec.short_name, one.spec.read_only, one.spec.idempotent, one.spec.destructive)
        for one in tools
    ]
    assert shown == [
        ("shop_get_item", "get_item", True, True, False),
        ("shop_delete_items_by_id", "delete_items_by_id", False, True, True),
        ("shop_items_replace", "items_replace", False, True, False),
    ]
    assert tools[0].spec.description == "One item\n\nGET /items/{id}"
    assert tools[2].spec.description == "Deprecated.\n\nPUT /items/{id}"
    assert dict(tools[1].spec.output_schema) == {"type": "null"}
    assert dict(tools[0].spec.input_schema) == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "with_response": {
                "type": "boolean",
                "description": "Return {status, headers, body, next, unread} instead of the body alone.",
            },
        },
        "required": ["id"],
        "additionalProperties": False,
    }


def test_references_may_run_in_a_circle(tmp_path):
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Node"}, "n": {"type": "integer", "nullable": True}},
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}}
    given = document(
        {
            "/nodes": {
                "post": {"operationId": "add", "requestBody": body, "responses": {"200": {"description": "", **body}}}
            }
        },
        components={"schemas": {"Node": node}},
    )

    [tool] = tools_of(tmp_path, given)

    converted = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node"}, "n": {"type": ["integer", "null"]}},
    }
    assert dict(tool.spec.output_schema) == {"$ref": "#/$defs/Node", "$defs": {"Node": converted}}
    assert tool.spec.input_schema["properties"]["next"] == {"$ref": "#/$defs/Node"}
    assert tool.spec.input_schema["$defs"] == {"Node": converted}


def test_yaml_keeps_words_and_dates_and_takes_numbers_as_statuses(tmp_path):
    text = """
openapi: 3.1.0
servers: [{url: https://shop.example}]
paths:
  /switch:
    get:
      operationId: on
      parameters:
        - {name: no, in: query, schema: {type: string, default: 2020-01-01}}
      responses:
        200: {description: ok, content: {text/plain: {}}}
"""

    [tool] = openapi_tools(written(tmp_path, text, "shop.yaml"))

    assert (tool.spec.name, dict(tool.spec.output_schema)) == ("shop_on", {"type": "string"})
    assert tool.spec.input_schema["properties"]["no"] == {"type": "string", "default": "2020-01-01"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON: Input data was truncated"),
        ("a: b: c", "is not YAML in line 1: mapping values are not allowed in this context"),
        ("- 1", "is not an OpenAPI document: it must be keys with values"),
        ('{"swagger": "2.0"}', "is a Swagger 2.0 document; convert it to OpenAPI 3.0 or 3.1"),
        ('{"openapi": "4.0.0"}', "must have 'openapi: 3.0.x' or '3.1.x', got '4.0.0'"),
        ('{"openapi": "3.0.0"}', "has no 'paths', so there is nothing to call"),
        ('{"openapi": "3.0.0", "paths": []}', "has no 'paths', so there is nothing to call"),
        ('{"openapi": "3.0.0", "paths": {}}', "has no operation that can be called"),
        ("[" * 100_000, "is nested too deeply"),
        ("openapi: 3.0.0\npaths: {}\na: &a [*a]", "has an alias that contains itself"),
        (
            "openapi: 3.0.0\npaths: {}\na0: &a0 [x, x]\n"
            + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)),
            "has more than 5,000,000 values once its aliases are followed",
        ),
    ],
    ids=range(11),
)  # fmt: skip
def test_a_document_that_is_none_is_one_clear_error(tmp_path, text, complaint):
    with pytest.raises(UsageError) as caught:
        openapi_tools(written(tmp_path, text))

    assert str(caught.value) == f"API 'shop.json': {complaint}"


def test_what_is_unusable_is_left_out_with_one_warning_each(tmp_path, caplog):
    paths = {
        "/a": {"get": operation(operationId="same"), "post": operation(operationId="same")},
        "b": {"get": operation()},
        "//evil.example/c": {"get": operation()},
        "/d": "nothing",
        "/e": {"get": "nothing"},
        "/f": {"get": operation(operationId="import", parameters=[{"name": "from", "in": "query", "schema": {"$ref": "other.json#/x"}}, 7, {"in": 3}])},
        "/g": {"get": operation(operationId="odd", parameters=[{"name": "q", "in": "query", "schema": {"type": 7, "enum": "x", "properties": 3, "required": "yes"}}])},
    }  # fmt: skip

    with caplog.at_level(logging.WARNING):
        tools = tools_of(tmp_path, document(paths))

    assert [one.spec.name for one in tools] == ["shop_same", "shop_post_a", "shop_import", "shop_odd"]
    assert tools[2].spec.parameters == ("from", "with_response")
    assert tools[3].spec.input_schema["properties"]["q"] == {}
    assert caplog.messages == [
        "API 'shop': the remote reference 'other.json#/x' is not followed",
        "API 'shop': GET b is left out: a path must begin with one slash",
        "API 'shop': GET //evil.example/c is left out: a path must begin with one slash",
        "API 'shop': path '/d' is left out: it must be keys with values",
        "API 'shop': GET /e is left out: it must be keys with values",
        "API 'shop': POST /a is named 'post_a': 'same' is the name of another operation",
    ]


@pytest.mark.long
def test_a_hundred_thousand_operations_are_refused_with_their_number():
    paths = {f"/things/{n}": {"get": {"operationId": f"op{n}"}} for n in range(100_000)}
    data = json.dumps(document(paths)).encode()

    with pytest.raises(UsageError) as caught:
        read_operations(read_document(data))

    assert str(caught.value) == "has 100,000 operations; the most is 20,000"


def test_the_fields_of_an_object_are_arguments_and_anything_else_is_the_body(tmp_path):
    parts = [
        {
            "type": "object",
            "required": ["title"],
            "properties": {"title": {"type": "string"}, "id": {"type": "string"}},
        },
        {"type": "object", "properties": {"made": {"type": "string", "readOnly": True}, "n": {"type": "integer"}}},
    ]
    paths = {
        "/notes/{id}": {"post": operation(operationId="note", requestBody={"required": True, "content": {"application/json": {"schema": {"allOf": parts}}}})},
        "/lists": {"post": operation(operationId="list", requestBody={"required": True, "content": {"application/json": {"schema": {"type": "array", "items": {"type": "string"}}}}})},
        "/either": {"post": operation(operationId="either", requestBody={"content": {"application/json": {"schema": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}}})},
    }  # fmt: skip

    note, several, either = tools_of(tmp_path, document(paths))

    assert (note.spec.parameters, note.spec.required) == (
        ("id", "title", "id_body", "n", "with_response"),
        ("id", "title"),
    )
    assert (several.spec.parameters, several.spec.required) == (("body", "with_response"), ("body",))
    assert either.spec.input_schema["properties"]["body"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}


def test_include_exclude_and_read_only_choose_operations(tmp_path):
    given = document({
        "/a": {"get": operation(operationId="list_a"), "post": operation(operationId="add_a")},
        "/b": {"get": operation(operationId="list_b")},
    })  # fmt: skip

    def names(**options):
        return [one.spec.short_name for one in tools_of(tmp_path, given, **options)]

    assert names(include=["*_a"]) == ["list_a", "add_a"]
    assert names(include=["GET /*"], exclude=["list_b"]) == ["list_a"]
    assert names(read_only=True) == ["list_a", "list_b"]
    with pytest.raises(UsageError, match="API 'shop': none of its 3 operations is included"):
        names(include=["nothing"])


def test_an_index_is_kept_and_gives_the_same_tools(tmp_path):
    given = document({f"/a{n}": {"get": operation(operationId=f"op{n}", description="x" * 100)} for n in range(500)})
    api, store = Api(spec=written(tmp_path, given), name="shop"), DocumentStore(tmp_path / "cache")

    first, second = api_tools(api, store=store), api_tools(api, store=store)

    [kept] = (tmp_path / "cache").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [one.spec for one in first] == [one.spec for one in second]
    kept.write_bytes(b"broken")
    assert [one.spec for one in api_tools(api, store=store)] == [one.spec for one in first]


def test_a_document_is_fetched_from_its_url_and_says_where_its_server_is(tmp_path):
    given = document({"/a": {"get": operation(operationId="a")}}, servers=[{"url": "/v1"}])

    def answer(asked):
        return Answer(body=json.dumps(given if asked.path == "/openapi.json" else {"path": asked.path}).encode())

    with Serving(answer) as server:
        tools = openapi_tools(f"{server.url}/openapi.json")
        value = called(tools, "a")

    assert (tools[0].spec.name, value) == ("openapi_a", {"path": "/v1/a"})


def test_a_fetched_document_is_sent_again_only_if_it_has_changed_and_outlives_its_server(tmp_path, caplog):
    store, name = DocumentStore(tmp_path / "cache"), ["first"]

    def answer(asked):
        tag = f'"{name[0]}"'
        if asked.headers.get("if-none-match") == tag:
            return Answer(304, b"")
        paths = {"/a": {"get": operation(operationId=name[0])}}
        return Answer(body=json.dumps(document(paths)).encode(), headers={"ETag": tag})

    def names():
        return [tool.spec.short_name for tool in api_tools(api, store=store)]

    with Serving(answer) as server:
        api = Api(spec=f"{server.url}/openapi.json?key=of-mine", base_url="https://shop.example")
        seen = [names(), names()]
        name[0] = "second"
        seen += [names(), names()]
    with caplog.at_level(logging.WARNING):
        seen.append(names())

    assert seen == [["first"], ["first"], ["second"], ["second"], ["second"]]
    assert [one.headers.get("if-none-match") for one in server.asked] == [None, '"first"', '"first"', '"second"']
    [line] = caplog.messages
    assert line.startswith(f"the document {server.url}/openapi.json cannot be fetched, so the last copy is used: ")
    for kept in (tmp_path / "cache").iterdir():
        kept.unlink()
    with pytest.raises(UsageError, match=r"the document cannot be fetched: '127\.0\.0\.1' cannot be reached"):
        names()


def test_a_document_that_its_server_refuses_is_not_taken_from_the_last_copy(tmp_path):
    store, answers = DocumentStore(tmp_path), [Answer(body=json.dumps(document({"/a": {"get": operation()}})).encode())]

    with Serving(lambda _: answers.pop() if answers else Answer(404, b"")) as server:
        api = Api(spec=f"{server.url}/openapi.json", base_url="https://shop.example")
        api_tools(api, store=store)
        with pytest.raises(UsageError, match="the document cannot be fetched: 404 Not Found"):
            api_tools(api, store=store)


def test_a_document_cannot_choose_a_private_address_or_another_host_than_its_own(tmp_path):
    paths = {"/a": {"get": operation(operationId="a")}}
    private = document(paths, servers=[{"url": "http://127.0.0.1:9"}])
    elsewhere = document(paths, servers=[{"url": "https://evil.example"}])

    with pytest.raises(UsageError, match=r"the document's server '127\.0\.0\.1' is at a private address"):
        tools_of(tmp_path, private)
    with (
        Serving(lambda _: Answer(body=json.dumps(elsewhere).encode())) as server,
        pytest.raises(UsageError, match=r"the document comes from another host than its server 'evil\.example'"),
    ):
        openapi_tools(f"{server.url}/openapi.json")
