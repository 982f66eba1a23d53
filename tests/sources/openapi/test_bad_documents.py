"""Documents by strangers: what is usable of them is, or one line says why not; within a gigabyte, and to an end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolfold.models import MIB

BOUND = 1024 * MIB
OK = {"200": {"description": "ok", "content": {"application/json": {"schema": {"type": "object"}}}}}


def document(paths, **more):
    return {"openapi": "3.0.3", "paths": paths, **more}


def of_schema(schema, **schemas):
    """One operation that takes and gives this schema."""
    content = {"content": {"application/json": {"schema": schema}}}
    add = {"operationId": "add", "requestBody": content, "responses": {"200": {"description": "", **content}}}
    return document({"/a": {"post": add}}, components={"schemas": schemas})


# How deep Python's own decoder and recursion go depends on the interpreter.
_DEEP_SCHEMA, _DEEP_DOCUMENT = (400, 900) if sys.version_info < (3, 12) else (900, 30_000)


def nested(depth):
    """As text: the standard library would not write it."""
    schema = '{"properties": {"a": ' * depth + "{}" + "}}" * depth
    return json.dumps(of_schema({"x": 0})).replace('{"x": 0}', schema)


def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


def every_way(count):
    """Each schema refers to all others, so that following each way to its end would never end."""
    return {
        f"S{n}": {"type": "object", "properties": {f"p{m}": ref(f"S{m}") for m in range(count)}} for n in range(count)
    }


def bomb(levels, width):
    lines = ["openapi: 3.0.0", "x0: &a0 [x, x]"]
    lines += [f"x{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join([*lines, "paths: {}"])


def merging(levels):
    """Every mapping takes in the one before, twice."""
    lines = ["openapi: 3.0.0", "x0: &a0 {k: v}"]
    lines += [f"x{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: *a{n - 1}}}" for n in range(1, levels)]
    return "\n".join([*lines, "paths: {}"])


def odd(**words):
    """As text, with values that no writer of JSON writes."""
    schema = ", ".join(f'"{word}": {value}' for word, value in words.items())
    parameters = '[{"name": "q", "in": "query", "schema": {' + schema + "}}]"
    return '{"openapi": "3.0.0", "paths": {"/a": {"get": {"operationId": "add", "parameters": ' + parameters + "}}}}"


IN_PART = "the schema of 'shop_add' is used only in part: it is too large with its references resolved"
CASES = {
    "circular references": (of_schema(ref("A"), A={"allOf": [ref("B")]}, B={"allOf": [ref("A")]}), "1 tools", []),
    "a reference to itself": (of_schema(ref("A"), A=ref("A")), "1 tools", []),
    "circular paths": (
        document({"/a": {"$ref": "#/paths/~1b"}, "/b": {"$ref": "#/paths/~1a"}, "/c": {"get": {"responses": OK}}}),
        "1 tools",
        ["API 'shop': path '/a' is left out: it must be keys with values",
         "API 'shop': path '/b' is left out: it must be keys with values"],
    ),
    "every schema refers to every other": (of_schema(ref("S0"), **every_way(150)), "1 tools", [IN_PART]),
    "a hundred thousand operations": (
        document({f"/things/{n}": {"get": {"operationId": f"op{n}", "responses": OK}} for n in range(100_000)}),
        "API 'shop': has 100,000 operations; the most is 20,000",
        [],
    ),
    "as many operations as there may be": (
        document({f"/things/{n}": {"get": {"operationId": f"op{n}", "responses": OK}} for n in range(20_000)}),
        "20000 tools",
        [],
    ),
    "a bomb of aliases": (bomb(60, 10), "API 'shop': has more than 5,000,000 values once its aliases are followed", []),
    "a bomb of merges": (merging(60), "API 'shop': has more than 1,000,000 keys once its merges are followed", []),
    "nested YAML in a line": ("- " * 100_000, "API 'shop': is nested too deeply", []),
    "nested YAML": ("a: " + "[" * 50_000, "API 'shop': is nested too deeply", []),
    "a deep schema": (nested(100), "1 tools", [IN_PART]),
    "a schema that is too deep": (
        nested(_DEEP_SCHEMA),
        "API 'shop': has no operation that can be called: POST /a is left out: it is nested too deeply",
        [],
    ),
    "a document that is too deep": (nested(_DEEP_DOCUMENT), "API 'shop': is nested too deeply", []),
    "wrong types": (
        document({
            "/a": {"get": {"operationId": 7, "parameters": {"name": "x"}, "requestBody": [], "responses": "none", "tags": 3}},
            "/b": {"post": {"operationId": ["x"], "parameters": [{"name": 3, "in": "query"}, {"name": "q", "in": "query", "schema": 5}],
                            "requestBody": {"content": {"application/json": 5}}, "responses": {"200": [], "x": None}}},
        }, servers="none", components=7, info=[]),
        "2 tools",
        [],
    ),
    "no paths": ({"openapi": "3.0.0"}, "API 'shop': has no 'paths', so there is nothing to call", []),
    "remote references": (
        of_schema({"$ref": "https://evil.example/schema.json"}),
        "1 tools",
        ["API 'shop': the remote reference 'https://evil.example/schema.json' is not followed"],
    ),
    "two equal ids": (
        document({"/a": {"get": {"operationId": "same", "responses": OK}}, "/b": {"get": {"operationId": "same", "responses": OK}}}),
        "2 tools",
        ["API 'shop': GET /b is named 'get_b': 'same' is the name of another operation"],
    ),
    "keywords as names": (
        document({
            f"/{word}": {"post": {"operationId": word, "parameters": [{"name": word, "in": "query", "schema": {}}], "responses": OK}}
            for word in ("class", "import", "None", "async", "lambda", "__import__", "123", "..", "é")
        }),
        "9 tools",
        ["API 'shop': POST /__import__ is named 'post_import': 'import' is the name of another operation",
         "API 'shop': POST /é is named 'post': 'post' is the name of another operation"],
    ),
    "a large number": (odd(maximum="1e999999999"), "1 tools", []),
    "a number of more than 64 bits": (odd(maximum="18446744073709552000"), "1 tools", []),
    "a negative number of more than 64 bits": (odd(default="-18446744073709552000", enum="[1, 99999999999999999999999]"), "1 tools", []),
    "a number of 500 digits": (odd(maximum="9" * 500), "1 tools", []),
    "a number of 5,000 digits": (odd(maximum="9" * 5_000), "1 tools", []),
    "no number": (odd(maximum="NaN", minimum="-Infinity"), "1 tools", []),
    "half a surrogate pair": (odd(description='"\\ud800"'), "1 tools", []),
    "odd numbers in YAML": (
        "openapi: 3.0.0\npaths: {/a: {get: {parameters: [{name: q, in: query, schema: {maximum: "
        + "9" * 5_000 + ", minimum: 1e999, default: 18446744073709552000}}]}}}",
        "1 tools",
        [],
    ),
    "a tag that does not fit": (
        "openapi: 3.0.0\nx: !!float many\npaths: {}", "API 'shop': is not YAML: it has a tag that its value does not fit", []
    ),
    "a long name": (document({"/" + "a" * 100_000: {"get": {"responses": OK}}}), "1 tools", []),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_bad_document_is_used_as_far_as_it_goes_within_a_gigabyte(tmp_path, name):
    given, told, warnings = CASES[name]
    path = tmp_path / "shop.json"
    path.write_text(given if isinstance(given, str) else json.dumps(given))
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("bounded.py")), str(path), str(BOUND)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["told"], found["warnings"]) == (told, warnings)
