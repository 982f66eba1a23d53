import asyncio
import itertools
import json
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import pytest

import toolfold
from tests.sources.openapi.serving import Answer, Serving, called
from toolfold import prompt_text
from toolfold.errors import ToolArgumentsInvalid, ToolError, ToolFailed
from toolfold.models import Media
from toolfold.sources.openapi.source import openapi_tools
from toolfold.sources.web.credentials import ApiAuth
from toolfold.tools.arguments import argument_check
from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router
from toolfold.tools.router_steps import Retry, wrappers

OK = {"200": {"description": "ok", "content": {"application/json": {"schema": {"type": "object"}}}}}


def api(tmp_path, server, paths, **options):
    path = tmp_path / "api.json"
    path.write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))
    return openapi_tools(path, name="api", base_url=f"{server.url}/v1", **options)


def asked_with(tmp_path, path, parameter, value, *, method="get"):
    """What the server was asked when one parameter had a value."""
    given = {path: {method: {"operationId": "op", "parameters": [{"schema": {}, **parameter}], "responses": OK}}}
    with Serving(lambda _: Answer()) as server:
        called(api(tmp_path, server, given), "op", **{parameter["name"]: value})
        return server.asked[0]


@pytest.mark.parametrize(
    ("more", "value", "path"),
    [
        ({}, "a b/c?d", "a%20b%2Fc%3Fd"),
        ({}, [3, 4], "3,4"),
        ({}, {"r": 1, "g": 2}, "r,1,g,2"),
        ({"explode": True}, {"r": 1, "g": 2}, "r=1,g=2"),
        ({"style": "label"}, [3, 4], ".3,4"),
        ({"style": "label", "explode": True}, [3, 4], ".3.4"),
        ({"style": "label", "explode": True}, {"r": 1}, ".r=1"),
        ({"style": "matrix"}, 5, ";p=5"),
        ({"style": "matrix"}, [3, 4], ";p=3,4"),
        ({"style": "matrix", "explode": True}, [3, 4], ";p=3;p=4"),
        ({"style": "matrix", "explode": True}, {"r": 1, "g": 2}, ";r=1;g=2"),
        ({"content": {"application/json": {}}}, {"a": True}, "%7B%22a%22%3Atrue%7D"),
    ],
)
def test_path_parameters_are_written_in_their_style(tmp_path, more, value, path):
    asked = asked_with(tmp_path, "/things/{p}/end", {"name": "p", "in": "path", **more}, value)

    assert asked.path == f"/v1/things/{path}/end"


@pytest.mark.parametrize(
    ("more", "value", "query"),
    [
        ({}, "a&b=c", "q=a%26b%3Dc"),
        ({}, True, "q=true"),
        ({}, [1, 2], "q=1&q=2"),
        ({"explode": False}, [1, 2], "q=1,2"),
        ({"style": "spaceDelimited", "explode": False}, [1, 2], "q=1%202"),
        ({"style": "pipeDelimited", "explode": False}, [1, 2], "q=1|2"),
        ({}, {"a": 1, "b": 2}, "a=1&b=2"),
        ({"explode": False}, {"a": 1}, "q=a,1"),
        ({"style": "deepObject", "explode": True}, {"a": {"b": 1}, "c": [2, 3]}, "q[a][b]=1&q[c]=2&q[c]=3"),
        ({"allowReserved": True}, "a/b:c", "q=a/b:c"),
        ({"content": {"application/json": {}}}, {"a": [1]}, "q=%7B%22a%22%3A%5B1%5D%7D"),
    ],
)
def test_query_parameters_are_written_in_their_style(tmp_path, more, value, query):
    asked = asked_with(tmp_path, "/things", {"name": "q", "in": "query", **more}, value)

    assert asked.path == f"/v1/things?{query}"


def test_headers_and_cookies_are_sent_and_forged_ones_are_not(tmp_path):
    header = asked_with(tmp_path, "/a", {"name": "X-List", "in": "header"}, [1, 2])
    cookie = asked_with(tmp_path, "/a", {"name": "sid", "in": "cookie"}, "a b")
    forged = asked_with(tmp_path, "/a", {"name": "Authorization", "in": "header"}, "Bearer mine")

    assert header.headers["x-list"] == "1,2"
    assert cookie.headers["cookie"] == "sid=a%20b"
    assert "authorization" not in forged.headers
    with pytest.raises(ToolArgumentsInvalid, match="must be text that a header can hold"):
        asked_with(tmp_path, "/a", {"name": "X-List", "in": "header"}, "a\r\nX-Other: b")


@pytest.mark.parametrize("value", ["..", ".", ""])
def test_a_path_parameter_cannot_climb_out_of_its_operation(tmp_path, value):
    with pytest.raises(ToolArgumentsInvalid, match="p must be text that can stand in a path"):
        asked_with(tmp_path, "/things/{p}", {"name": "p", "in": "path"}, value)


def sent(tmp_path, mime, schema, /, encoding=None, **arguments):
    media = {"schema": schema, **({"encoding": encoding} if encoding else {})}
    paths = {
        "/a": {
            "post": {"operationId": "op", "requestBody": {"required": True, "content": {mime: media}}, "responses": OK}
        }
    }
    with Serving(lambda _: Answer()) as server:
        called(api(tmp_path, server, paths), "op", **arguments)
        return server.asked[0]


def test_bodies_are_sent_as_json_forms_text_and_bytes(tmp_path):
    fields = {"type": "object", "properties": {"a": {}, "b": {}}}

    as_json = sent(tmp_path, "application/json", fields, a=1, b=None)
    form = sent(tmp_path, "application/x-www-form-urlencoded", fields, a=[1, 2], b="x y&z")
    deep = sent(tmp_path, "application/x-www-form-urlencoded", fields, {"a": {"style": "deepObject"}}, a={"k": 1})
    text = sent(tmp_path, "text/plain", {"type": "string"}, body="hé")
    raw = sent(tmp_path, "application/octet-stream", {}, body=b"\x00\xff")

    assert (as_json.headers["content-type"], as_json.body) == ("application/json", b'{"a":1,"b":null}')
    assert (form.headers["content-type"], form.body) == ("application/x-www-form-urlencoded", b"a=1&a=2&b=x+y%26z")
    assert deep.body == b"a[k]=1"
    assert (text.headers["content-type"], text.body) == ("text/plain", "hé".encode())
    assert (raw.headers["content-type"], raw.body) == ("application/octet-stream", b"\x00\xff")


def test_multipart_bodies_have_files_with_names_and_types(tmp_path):
    fields = {"type": "object", "properties": {"note": {}, "meta": {}, "file": {"type": "string", "format": "binary"}}}
    picture = Media(kind="image", mime="image/png", data=b"\x89PNG", name="a.png")

    asked = sent(tmp_path, "multipart/form-data", fields, note="hi", meta={"n": 1}, file=[picture, b"raw"])

    boundary = asked.headers["content-type"].partition("boundary=")[2].encode()
    parts = [part.strip(b"\r\n") for part in asked.body.split(b"--" + boundary)[1:-1]]
    assert parts == [
        b'Content-Disposition: form-data; name="note"\r\n\r\nhi',
        b'Content-Disposition: form-data; name="meta"\r\nContent-Type: application/json\r\n\r\n{"n":1}',
        b'Content-Disposition: form-data; name="file"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n\x89PNG',
        b'Content-Disposition: form-data; name="file"; filename="file"\r\nContent-Type: application/octet-stream\r\n\r\nraw',
    ]


GET = {"/a": {"get": {"operationId": "op", "responses": OK}}}


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (Answer(body=b'{"a": [1]}'), {"a": [1]}),
        (Answer(body=b'{"a": 1}', mime="application/vnd.x+json; charset=utf-8"), {"a": 1}),
        (Answer(status=204, body=b""), None),
        (Answer(body="é".encode("latin-1"), mime="text/plain; charset=latin-1"), "é"),
        (Answer(body=b"\x89PNG", mime="image/png"), Media(kind="image", mime="image/png", data=b"\x89PNG")),
        (Answer(body=b"\x00\x01", mime="application/zip"), b"\x00\x01"),
    ],
)
def test_a_reply_is_its_parsed_body(tmp_path, answer, value):
    with Serving(lambda _: answer) as server:
        assert called(api(tmp_path, server, GET), "op") == value


def test_with_response_gives_status_headers_and_body_without_cookies(tmp_path):
    answer = Answer(201, b"[1]", {"X-Rate": "5", "Set-Cookie": "sid=1"})

    with Serving(lambda _: answer) as server:
        reply = called(api(tmp_path, server, GET), "op", with_response=True)

    headers = {key: reply["headers"][key] for key in ("x-rate", "content-type")}
    assert (reply["status"], reply["body"], reply["next"]) == (201, [1], None)
    assert headers == {"x-rate": "5", "content-type": "application/json"}
    assert "set-cookie" not in reply["headers"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(404, b'{"message": "no such\\n repo"}'), ToolFailed("404 Not Found: no such repo")),
        (Answer(422, b'{"error": {"message": "bad", "code": 7}}'), ToolFailed(f"422 {HTTPStatus(422).phrase}: bad")),
        (Answer(400, b'{"errors": [{"detail": "a"}, {"detail": "b"}]}'), ToolFailed("400 Bad Request: a; b")),
        (Answer(500, b"<html>oops", mime="text/html"), ToolError("500 Internal Server Error")),
        (Answer(418, b"short and stout", mime="text/plain"), ToolFailed("418 I'm a Teapot: short and stout")),
        (Answer(429, b"", {"Retry-After": "7"}), ToolError("429 Too Many Requests (retry after 7 s)")),
        (Answer(503, b"", {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), ToolError("503 Service Unavailable")),
        (Answer(200, b"{", mime="application/json"), ToolError("the API answered 200 with JSON that cannot be read")),
    ],
)
def test_an_error_status_is_an_error_with_the_apis_own_message(tmp_path, answer, error):
    with Serving(lambda _: answer) as server, pytest.raises(ToolError) as caught:
        called(api(tmp_path, server, GET), "op")

    assert (type(caught.value), str(caught.value)) == (type(error), str(error))


class Clock:
    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def served(tools, clock):
    steps = wrappers(retry=Retry(jitter=0), clock=clock)
    router = Router(Catalog(tools), wrappers=steps)

    async def serve():
        try:
            return await router.serve(toolfold.Call(id=1, tool="api_op", arguments={}))
        finally:
            await router.catalog.close()

    return asyncio.run(serve())


def test_the_router_waits_as_long_as_the_api_asks_and_not_for_ever(tmp_path):
    answers = [Answer(429, b"", {"Retry-After": "2"}), Answer(503, b"", {"Retry-After": "1"}), Answer(body=b"7")]
    clock, patient = Clock(), Clock()

    with Serving(lambda _: answers.pop(0)) as server:
        reply = served(api(tmp_path, server, {"/a": {"post": GET["/a"]["get"]}}), clock)
    with Serving(lambda _: Answer(429, b"", {"Retry-After": "3600"})) as server:
        late = served(api(tmp_path, server, GET), patient)

    assert (reply.value, clock.slept) == (7, [2.0, 1.0])
    assert (late.error, patient.slept) == ("'api_op' failed: 429 Too Many Requests (retry after 3600 s)", [])


@pytest.mark.parametrize(("status", "requests"), [(404, 7), (429, 7), (500, 5), (502, 5)])
def test_only_failures_of_the_server_open_the_breaker(tmp_path, status, requests):
    async def serve(tools):
        router = Router(Catalog(tools), wrappers=wrappers(retry=Retry(attempts=1)))
        for number in range(7):
            await router.serve(toolfold.Call(id=number, tool="api_op", arguments={}))
        await router.catalog.close()

    with Serving(lambda _: Answer(status, b"")) as server:
        asyncio.run(serve(api(tmp_path, server, GET)))

    assert len(server.asked) == requests


PAGED = {"get": {"operationId": "list", "responses": OK}}


@pytest.mark.parametrize(
    ("parameter", "pages"),
    [
        ("page", [([1], {"Link": '<https://x.example/other?page=2>; rel="next", <https://x.example/?page=9>; rel="last"'}), ([2], {})]),
        ("cursor", [({"data": [1], "next_cursor": "c2"}, {}), ({"data": [2], "next_cursor": ""}, {})]),
        ("pageToken", [({"nextPageToken": "t"}, {}), ({}, {})]),
        ("cursor", [({"response_metadata": {"next_cursor": "c2"}}, {}), ({}, {})]),
        ("starting_after", [({"has_more": True, "data": [{"id": "x1"}]}, {}), ({"has_more": False, "data": []}, {})]),
        ("offset", [({"links": {"next": "https://x.example/?offset=20"}}, {}), ({"links": {}}, {})]),
        ("$skiptoken", [({"@odata.nextLink": "https://x.example/l?$skiptoken=s2"}, {}), ({"value": []}, {})]),
        ("after", [({"paging": {"cursors": {"before": "a", "after": "b"}}}, {}), ({"paging": {}}, {})]),
        ("after", [({"pageInfo": {"endCursor": "e1", "hasNextPage": True}}, {}), ({"pageInfo": {"endCursor": "e2", "hasNextPage": False}}, {})]),
        ("pagination_token", [({"meta": {"next_token": "n2"}}, {}), ({"meta": {}}, {})]),
    ],
)  # fmt: skip
def test_pages_are_followed_by_a_program_to_the_last(tmp_path, parameter, pages):
    paths = {"/l": {"get": {**PAGED["get"], "parameters": [{"name": parameter, "in": "query", "schema": {}}]}}}
    waiting = list(pages)

    def answer(_):
        body, headers = waiting.pop(0)
        return Answer(body=json.dumps(body).encode(), headers=headers)

    with Serving(answer) as server:
        outcome = toolfold.run_sync(
            "result = [page async for page in api_list.pages()]", tools=api(tmp_path, server, paths)
        )

    assert (outcome.status, outcome.value) == ("finished", [body for body, _ in pages])


def test_pages_end_where_the_program_says(tmp_path):
    paths = {"/l": {"get": {**PAGED["get"], "parameters": [{"name": "page", "in": "query", "schema": {}}]}}}
    numbers = itertools.count(2)
    program = "print(len([page for page in api_list.pages(max_pages=3)]))"

    def answer(_):
        return Answer(body=b"[1]", headers={"Link": f'<?page={next(numbers)}>; rel="next"'})

    with Serving(answer) as server:
        outcome = toolfold.run_sync(program, tools=api(tmp_path, server, paths))

    assert (outcome.status, outcome.stdout, len(outcome.calls)) == ("finished", "3\n", 3)


def doubling(levels, word):
    """Schemas that each name the next one twice."""
    schemas = {
        f"L{n}": {word: [{"$ref": f"#/components/schemas/L{n + 1}"}] * 2} for n in range(levels)
    }  # fmt: skip
    return schemas | {f"L{levels}": {"type": "object", "properties": {"z": {"type": "string"}}, "required": ["z"]}}


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("levels", [18, 60])
def test_schemas_that_double_with_each_level_are_used_as_far_as_they_go(tmp_path, word, levels):
    first = {"schema": {"$ref": "#/components/schemas/L0"}}
    size = {"name": "size", "in": "query", "schema": {"type": "integer"}}
    operation = {
        "operationId": "op",
        "parameters": [{"name": "q", "in": "query", "content": {"application/json": first}}, size],
        "requestBody": {"content": {"application/json": first}},
        "responses": {"200": {"description": "ok", "content": {"application/json": first}}},
    }
    document = {
        "openapi": "3.1.0",
        "paths": {"/a": {"post": operation}},
        "components": {"schemas": doubling(levels, word)},
    }
    (tmp_path / "api.json").write_text(json.dumps(document))
    with Serving(lambda asked: Answer(body=json.dumps([asked.path, asked.body.decode()]).encode())) as server:
        tools = openapi_tools(tmp_path / "api.json", name="api", base_url=server.url)
        body = "z='x'" if word == "allOf" and levels == 18 else "body={'z': 'x'}"
        program = f"print(await api_op(**{{'q': 1}}, {body}))\nawait api_op(**{{'size': 'large'}})"
        outcome = toolfold.run_sync(program, tools=tools)

    assert outcome.stdout == "['/a?q=1', '{\"z\":\"x\"}']\n"
    assert outcome.problem.message == "ToolError: 'api_op' got a bad argument: size must be an integer, got 'large'"


def test_a_large_program_is_checked_against_the_schemas_of_an_api(tmp_path):
    reply = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    responses = {
        "200": {"description": "ok", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/R"}}}}
    }
    size = {"name": "size", "in": "query", "schema": {"type": "integer"}}
    document = {
        "openapi": "3.1.0",
        "paths": {"/a": {"get": {"operationId": "op", "parameters": [size], "responses": responses}}},
        "components": {"schemas": {"R": reply}},
    }
    (tmp_path / "api.json").write_text(json.dumps(document))
    padding = "# padding\n" * 5000
    with Serving(lambda _: Answer(body=b'{"a": "x"}')) as server:
        tools = openapi_tools(tmp_path / "api.json", name="api", base_url=server.url)
        texts = ["(await api_op(size=1))['a']", "(await api_op())['b']", "await api_op(size='large')"]
        outcomes = [toolfold.run_sync(f"{text}\n{padding}", tools=tools) for text in texts]

    assert [(one.value, one.problem and one.problem.message.partition("\n")[0]) for one in outcomes] == [
        ("x", None),
        (None, "the reply of 'api_op' has no key 'b'; it has 'a'"),
        (None, "'api_op' argument 'size' must be an integer, got 'large'"),
    ]


LISTED = {
    "/a": {
        "get": {
            "operationId": "op",
            "parameters": [
                {"name": "page", "in": "query", "schema": {"type": "integer", "maximum": 100}},
                {"name": "kind", "in": "query", "schema": {"enum": ["open", "closed"]}},
                {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                {"name": "id", "in": "query", "required": True, "schema": {"type": "integer"}},
                {"name": "api_key", "in": "query", "schema": {"type": "string"}},
            ],
            "responses": OK,
        }
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("admin=true", "next_query has 'admin', which is no parameter; pass `next` of the page before"),
        ("page=2&is_admin[x]=1", "next_query has 'is_admin[x]', which is no parameter; pass `next` of the page before"),
        ("api_key=other", "next_query has 'api_key', which is no parameter; pass `next` of the page before"),
        ("page=1000", "page: 1000 is greater than the maximum of 100"),
        ("page=all", "page must be an integer, got 'all'"),
        ("kind=secret", "kind must be one of 'open', 'closed', got 'secret'"),
    ],
)  # fmt: skip
def test_a_query_that_a_program_made_up_has_only_what_the_operation_takes(tmp_path, query, error):
    with Serving(lambda _: Answer()) as server:
        auth = ApiAuth(type="query", name="api_key", secret="key-12345678")
        tools = api(tmp_path, server, LISTED, auth=auth)
        outcome = toolfold.run_sync(f"await api_op(id=1, next_query={query!r})", tools=tools)

    assert (server.asked, outcome.problem.message) == ([], f"ToolError: 'api_op' got a bad argument: {error}")


@pytest.mark.parametrize(
    "query", ["page=2", "page=2&kind=open&tags=a&tags=b", "tags=a,b&cursor=x%26y", "id=7&page=100"]
)
def test_a_query_of_parameters_that_fit_is_sent(tmp_path, query):
    with Serving(lambda _: Answer()) as server:
        called(api(tmp_path, server, LISTED), "op", id=1, next_query=query)

    [asked] = server.asked
    assert parse_qs(urlsplit(asked.path).query) == {"id": ["1"], **parse_qs(query)}


def test_the_next_page_that_an_api_names_may_have_parameters_of_its_own(tmp_path):
    def answer(asked):
        has_more = "token=" not in asked.path
        return Answer(headers={"Link": '<https://x.example/a?token=t%2F1&id=1>; rel="next"'} if has_more else {})

    program = """
first = await api_op(id=1, with_response=True)
second = await api_op(id=1, with_response=True, next_query=first["next"])
(first["next"], second["next"])
"""
    with Serving(answer) as server:
        outcome = toolfold.run_sync(program, tools=api(tmp_path, server, LISTED))

    assert outcome.value == ["token=t%2F1&id=1", None]
    assert [asked.path for asked in server.asked] == ["/v1/a?id=1", "/v1/a?token=t%2F1&id=1"]


@pytest.mark.parametrize(("words", "following"), [("rel=a " * 10, "page=2"), ("rel=a " * 5000, None)])
def test_what_stands_beside_a_link_is_read_up_to_a_length(tmp_path, words, following):
    link = f'<https://x.example/a?page=2>; {words}; rel="next"'
    with Serving(lambda _: Answer(headers={"Link": link})) as server:
        value = called(api(tmp_path, server, LISTED), "op", id=1, with_response=True)

    assert value["next"] == following


def one_operation(path="/a", method="get", **more):
    return {path: {method: {"operationId": "op", "responses": OK, **more}}}


@pytest.mark.parametrize(
    ("path", "arguments", "asked"),
    [
        ("/files/{id}#copy", {"id": 7}, "/v1/files/7"),
        ("/files/{id}#get-{id}", {"id": 7}, "/v1/files/7"),
        ("/#X-Amz-Target=Service.List", {}, "/v1/"),
        ("/a?action=list", {}, "/v1/a?action=list"),
        ("/a?action=list#two", {"q": "x y"}, "/v1/a?action=list&q=x%20y"),
    ],
)
def test_a_fragment_of_a_path_is_not_sent_and_a_query_in_it_is(tmp_path, path, arguments, asked):
    paths = one_operation(path, parameters=[{"name": "q", "in": "query", "schema": {}}])
    with Serving(lambda _: Answer()) as server:
        called(api(tmp_path, server, paths), "op", **arguments)

    assert [entry.path for entry in server.asked] == [asked]


PET = {"type": "object", "properties": {"kind": {"type": "string"}, "name": {"type": "string"}}, "required": ["kind"]}


def schemas_of(tmp_path, schemas, name):
    body = {
        "content": {"application/json": {"schema": {"properties": {"pet": {"$ref": f"#/components/schemas/{name}"}}}}}
    }
    document = {
        "openapi": "3.1.0",
        "paths": one_operation(method="post", requestBody=body),
        "components": {"schemas": schemas},
    }
    (tmp_path / "api.json").write_text(json.dumps(document))
    [tool] = openapi_tools(tmp_path / "api.json", name="api", base_url="https://x.example")
    return prompt_text([tool.spec]), argument_check(tool.spec)


def test_a_discriminator_keeps_the_constant_of_each_of_its_types(tmp_path):
    mapping = {"cat": "#/components/schemas/Cat", "dog": "Dog", "wolf": "Dog"}
    choice = {
        "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
        "discriminator": {"propertyName": "kind", "mapping": mapping},
    }

    text, check = schemas_of(tmp_path, {"Cat": PET, "Dog": PET, "Pet": choice}, "Pet")

    assert [line.strip() for line in text.splitlines() if line.strip().startswith("kind:")] == [
        "kind: Literal['cat']",
        "kind: Literal['dog', 'wolf']",
    ]
    check({"pet": {"kind": "wolf"}})
    with pytest.raises(ToolArgumentsInvalid):
        check({"pet": {"kind": "cow"}})


def test_types_that_extend_one_with_a_discriminator_have_their_own_constant(tmp_path):
    mapping = {"cat": "#/components/schemas/Cat", "dog": "#/components/schemas/Dog"}
    parent = {**PET, "discriminator": {"propertyName": "kind", "mapping": mapping}}
    child = {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"type": "object", "properties": {"age": {}}}]}

    base, _ = schemas_of(tmp_path, {"Pet": parent}, "Pet")
    cat, _ = schemas_of(tmp_path, {"Pet": parent, "Cat": child, "Dog": child}, "Cat")

    assert ["kind: Literal['cat', 'dog']" in base, "kind: Literal['cat']" in cat] == [True, True]


def test_files_are_shown_as_bytes_and_text_is_sent_as_a_file(tmp_path):
    properties = {
        "file": {"type": "string", "format": "binary"},
        "image": {"type": "string", "contentMediaType": "image/png"},
        "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "title": {"type": "string"},
    }
    body = {"required": True, "content": {"multipart/form-data": {"schema": {"properties": properties}}}}
    answers = {"200": {"description": "ok", "content": {"application/pdf": {}}}}
    paths = one_operation(method="post", requestBody=body, responses=answers)

    with Serving(lambda _: Answer(body=b"%PDF", mime="application/pdf")) as server:
        tools = api(tmp_path, server, paths)
        program = "await api_op(file='a,b', image=b'png', more=['x', b'y'], title='t')"
        outcome = toolfold.run_sync(program, tools=tools)

    signature = prompt_text([tool.spec for tool in tools])
    assert [text in signature for text in ("file: bytes", "image: bytes", "more: list[bytes]", "-> bytes")] == [
        True
    ] * 4
    assert (outcome.problem, outcome.value) == (None, b"%PDF")
    sent = server.asked[0].body.decode()
    assert [line for line in sent.splitlines() if line.startswith("Content-")] == [
        'Content-Disposition: form-data; name="file"; filename="file"', "Content-Type: text/plain",
        'Content-Disposition: form-data; name="image"; filename="image"', "Content-Type: application/octet-stream",
        'Content-Disposition: form-data; name="more"; filename="more"', "Content-Type: text/plain",
        'Content-Disposition: form-data; name="more"; filename="more"', "Content-Type: application/octet-stream",
        'Content-Disposition: form-data; name="title"',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"message": "Validation Failed", "errors": [{"resource": "Issue", "field": "title", "code": "missing_field"}]},
         "Validation Failed: title: missing_field"),
        ({"errors": [{"field": "email", "message": "is invalid"}, {"field": "age", "message": "must be positive"}]},
         "email: is invalid; age: must be positive"),
        ({"title": "Bad", "detail": "wrong input", "validation": [{"path": "/a/b", "message": "required"}]},
         "wrong input: Bad: /a/b: required"),
        ({"detail": [{"loc": ["body", "email"], "msg": "field required", "type": "missing"}]}, "body.email: field required"),
        ({"errors": {"email": ["has been taken", "is short"], "name": "is blank"}}, "email: has been taken; is short; name: is blank"),
        ({"errors": [{"title": "Invalid", "detail": "too long", "source": {"pointer": "/data/attributes/name"}}]},
         "/data/attributes/name: too long: Invalid"),
        ({"error": {"code": 400, "message": "bad request", "details": [{"fieldViolations": [{"field": "q", "description": "empty"}]}]}},
         "bad request: q: empty"),
        ({"code": "bad_request", "message": "Bad Request", "context_info": {"errors": [{"reason": "invalid_parameter", "name": "parent", "message": "unknown"}]}},
         "Bad Request: parent: unknown: invalid_parameter"),
        ({"message": "no", "invalid-params": [{"name": "age", "reason": "must be positive"}]}, "no: age: must be positive"),
    ],
)  # fmt: skip
def test_an_error_body_keeps_the_fields_that_it_names_and_the_program_reads_status_and_body(tmp_path, body, message):
    program = """
try:
    await api_op()
except ToolError as error:
    result = [str(error), error.status, error.body]
"""
    with Serving(lambda _: Answer(400, json.dumps(body).encode())) as server:
        outcome = toolfold.run_sync(program, tools=api(tmp_path, server, GET))

    assert outcome.value == [f"'api_op' failed: 400 Bad Request: {message}", 400, body]


def test_a_tool_error_of_a_function_has_a_status_too_and_others_have_none():
    def missing() -> None:
        error = toolfold.ToolError("not there")
        error.status, error.body = 404, {"id": 7}
        raise error

    def broken() -> None:
        raise ValueError("bad")

    program = """
seen = []
for call in (missing, broken):
    try:
        await call()
    except ToolError as error:
        seen.append([error.status, error.body])
seen
"""
    assert toolfold.run_sync(program, tools=[missing, broken]).value == [[404, {"id": 7}], [None, None]]


def test_messages_name_arguments_as_a_program_writes_them(tmp_path):
    parameters = [
        {"name": "filter[name]", "in": "query", "required": True, "schema": {"type": "integer"}},
        {"name": "from", "in": "query", "schema": {"type": "integer"}},
    ]
    programs = ["await api_op()", "await api_op(filter_name_='x')", "await api_op(filter_nam=1)",
                "await api_op(**{'filter_name_': 'x'})", "await api_op(**{'filter[name]': 1, 'from_': 'x'})",
                "await api_op(**{'fromm': 1, 'filter_name_': 1})"]  # fmt: skip

    with Serving(lambda _: Answer()) as server:
        tools = api(tmp_path, server, one_operation(parameters=parameters))
        outcomes = [toolfold.run_sync(program, tools=tools) for program in programs]

    assert [outcome.problem.message.partition("\n")[0] for outcome in outcomes] == [
        "'api_op' needs the argument 'filter_name_'",
        "'api_op' argument 'filter_name_' must be an integer, got 'x'",
        "'api_op' has no argument 'filter_nam'; did you mean 'filter_name_'?",
        "ToolError: 'api_op' got a bad argument: filter_name_ ('filter[name]') must be an integer, got 'x'",
        "ToolError: 'api_op' got a bad argument: from_ ('from') must be an integer, got 'x'",
        "ToolError: 'api_op' got a bad argument: no parameter 'fromm'; did you mean 'from_'?",
    ]


def test_a_key_goes_as_a_cookie_beside_the_cookies_of_the_program(tmp_path):
    parameters = [
        {"name": name, "in": "cookie", "schema": {"type": "string"}} for name in ("session", "theme")
    ]  # fmt: skip
    auth = toolfold.ApiAuth(type="cookie", name="session", secret="cookie-12345678")

    with Serving(lambda asked: Answer(body=json.dumps(asked.headers.get("cookie")).encode())) as server:
        tools = api(tmp_path, server, one_operation(parameters=parameters), auth=auth, headers={"Cookie": "lang=en"})
        alone, with_theme = called(tools, "op"), called(tools, "op", theme="dark")

    assert [asked.headers["cookie"] for asked in server.asked] == [
        "lang=en; session=cookie-12345678",
        "theme=dark; lang=en; session=cookie-12345678",
    ]
    assert (alone, with_theme) == ("lang=en; session=***", "theme=dark; lang=en; session=***")
    assert [*tools[0].spec.parameters] == ["theme", "with_response"]
