import base64
import contextlib
import gzip
import html
import json
import logging
import random
import string
import sys
from urllib.parse import quote, quote_plus

import pytest

import toolfold
from tests.sources.openapi.serving import Answer, Serving, called
from toolfold.config import load_config
from toolfold.config.build import declared_tools
from toolfold.errors import ToolRefused
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.sources.openapi.source import openapi_tools
from toolfold.sources.web.credentials import ApiAuth
from toolfold.tools.router_steps import wrappers

OK = {"200": {"description": "ok", "content": {"application/json": {}}}}
PATHS = {"/a": {"get": {"operationId": "op", "responses": OK}}}


def api(tmp_path, server, auth, paths=PATHS, **options):
    path = tmp_path / "api.json"
    path.write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))
    return openapi_tools(path, name="api", base_url=server.url, auth=auth, **options)


@pytest.mark.parametrize(
    ("auth", "header", "query"),
    [
        (ApiAuth(type="bearer", secret="tok-12345678"), ("authorization", "Bearer tok-12345678"), "/a"),
        (ApiAuth(type="basic", username="me", secret="pass word"), ("authorization", "Basic bWU6cGFzcyB3b3Jk"), "/a"),
        (ApiAuth(type="header", name="X-Key", secret="key-12345678"), ("x-key", "key-12345678"), "/a"),
        (ApiAuth(type="query", name="api_key", secret="key&1234"), None, "/a?api_key=key%261234"),
        (ApiAuth(type="bearer", command=[sys.executable, "-c", "print('from-command')"]), ("authorization", "Bearer from-command"), "/a"),
    ],
)  # fmt: skip
def test_each_kind_of_secret_is_sent_as_it_says(tmp_path, auth, header, query):
    with Serving(lambda _: Answer()) as server:
        called(api(tmp_path, server, auth), "op")

    [asked] = server.asked
    assert asked.path == query
    assert header is None or asked.headers[header[0]] == header[1]


def test_oauth_tokens_are_fetched_once_and_again_when_they_are_refused(tmp_path):
    tokens = iter(["first-token", "second-token"])

    def answer(asked):
        if asked.path == "/token":
            return Answer(body=json.dumps({"access_token": next(tokens), "expires_in": 3600}).encode())
        return Answer(401 if "first" in asked.headers["authorization"] else 200, b'"ok"')

    with Serving(answer) as server:
        auth = ApiAuth(
            type="oauth2", token_url=f"{server.url}/token", client_id="me", secret="client-secret", scope="read"
        )
        tools = api(tmp_path, server, auth)
        values = [called(tools, "op"), called(tools, "op")]

    assert values == ["ok", "ok"]
    assert [one.path for one in server.asked] == ["/token", "/a", "/token", "/a", "/a"]
    assert server.asked[0].body == b"grant_type=client_credentials&scope=read"
    assert server.asked[0].headers["authorization"] == "Basic bWU6Y2xpZW50LXNlY3JldA=="


def test_an_oauth_token_that_is_about_to_expire_is_not_used_again(tmp_path):
    tokens = iter(["first-token", "second-token"])

    def answer(asked):
        if asked.path == "/token":
            return Answer(body=json.dumps({"access_token": next(tokens), "expires_in": 30}).encode())
        return Answer(body=json.dumps(asked.headers["authorization"][:13]).encode())

    with Serving(answer) as server:
        auth = ApiAuth(type="oauth2", token_url=f"{server.url}/token", client_id="me", secret="client-secret")
        tools = api(tmp_path, server, auth)
        values = [called(tools, "op"), called(tools, "op")]

    assert values == ["Bearer first-", "Bearer second"]


def test_a_command_is_asked_again_when_its_secret_is_refused(tmp_path):
    count = tmp_path / "count"
    script = f"import pathlib; p = pathlib.Path({str(count)!r}); p.touch(); n = len(p.read_text()); p.write_text('x' * (n + 1)); print(f'secret-number-{{n}}')"

    def answer(asked):
        return Answer(401 if asked.headers["authorization"].endswith("0") else 200, b'"ok"')

    with Serving(answer) as server:
        tools = api(tmp_path, server, ApiAuth(type="bearer", command=[sys.executable, "-c", script]))
        values = [called(tools, "op"), called(tools, "op")]

    assert values == ["ok", "ok"]
    assert [one.headers["authorization"][-8:] for one in server.asked] == ["number-0", "number-1", "number-1"]


def test_a_secret_is_no_argument_and_a_program_cannot_replace_it(tmp_path):
    key = {"name": "api_key", "in": "query", "required": True, "schema": {"type": "string"}}
    paths = {"/a": {"get": {"operationId": "op", "parameters": [key], "responses": OK}}}

    with Serving(lambda _: Answer()) as server:
        tools = api(tmp_path, server, ApiAuth(type="query", name="api_key", secret="the-secret"), paths)
        called(tools, "op", api_key="forged")

    assert (tools[0].spec.parameters, tools[0].spec.required) == (("with_response",), ())
    assert server.asked[0].path == "/a?api_key=the-secret"


def test_no_secret_follows_a_redirect_to_another_host(tmp_path):
    with Serving(lambda _: Answer(body=b'"other"')) as other:
        there = Answer(302, b"", {"Location": f"http://localhost:{other.port}/x"})
        with Serving(lambda _: there) as server:
            auth = ApiAuth(type="bearer", secret="tok-12345678")
            with pytest.raises(ToolRefused):
                called(api(tmp_path, server, auth), "op")
            named = api(tmp_path, server, auth, hosts=["localhost"], headers={"X-Own": "mine"})
            value = called(named, "op")

    assert value == "other"
    assert "authorization" in server.asked[0].headers
    assert {"authorization", "x-own"}.isdisjoint(other.asked[0].headers)


# --- echoes ---------------------------------------------------------------------------------


def encodings(secret):
    raw = secret.encode()
    return [
        secret,
        quote(secret, safe=""),
        quote(secret, safe="").lower() if secret.isupper() else quote(secret),
        quote_plus(secret),
        quote(secret, safe="!'()*"),
        quote(secret, safe=";/?:@&=+$,#"),
        json.dumps(secret)[1:-1],
        base64.b64encode(raw).decode(),
        base64.b64encode(b"x" + raw).decode(),
        base64.b64encode(b"xy" + raw + b"z").decode(),
        base64.urlsafe_b64encode(b"user:" + raw).decode(),
        f"Bearer {secret}",
    ]


def placed(random_, secret):
    """An answer that has the secret somewhere, in some form."""
    before, after = random_.choice(["", "before ", "é"]), random_.choice(["", " after", '"'])
    text = before + random_.choice(encodings(secret)) + after
    safe = text.encode("ascii", "ignore").decode().replace("\n", " ")
    match random_.randrange(14):
        case 0:
            return Answer(body=json.dumps({"a": [{"b": text}]}).encode())
        case 1:
            return Answer(body=json.dumps({text: 1}).encode())
        case 2:
            return Answer(body=text.encode(), mime="text/plain")
        case 3:
            return Answer(body=b"\x00" + text.encode() + b"\xff", mime="application/octet-stream")
        case 4:
            return Answer(random_.choice([400, 404, 422]), json.dumps({"message": text}).encode())
        case 5:
            return Answer(
                random_.choice([400, 409]), ("x" * random_.randrange(480, 510) + text).encode(), mime="text/plain"
            )
        case 6:
            return Answer(
                200, b"[]", {"X-Echo": safe, "Link": f'<https://x.example/?page=2&t={quote(text)}>; rel="next"'}
            )
        case 7:
            return Answer(302, b"", {"Location": f"http://{quote(safe, safe='')}.example/{quote(safe)}"})
        case 8:
            return Answer(200, gzip.compress(json.dumps([text]).encode()), {"Content-Encoding": "gzip"})
        case 9:
            return Answer(500, f"<p>{html.escape(text)}</p>".encode(), mime="text/html")
        case 10:
            return Answer(200, f"<a>{html.escape(text)}</a>".encode(), mime="application/xml")
        case 11:
            return Answer(307, b"", {"Location": f"gone/{quote(safe, safe='')}"})
        case 12:
            return Answer(401, json.dumps([{"error": {"detail": text}}]).encode())
    return Answer(200, json.dumps(text).encode("utf-16"), mime="application/json")


class NoWaiting:
    """A clock for the router, which would wait before it tries again."""

    def now(self):
        return 0.0

    async def sleep(self, seconds):
        pass


class Everything(logging.Handler):
    """All that any logger says, at any level."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(f"{record.getMessage()} {record.exc_text or ''}")


@contextlib.contextmanager
def everything_logged():
    handler, root = Everything(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


def shown_parts(secret):
    """Texts that must be nowhere: the secret as it is, and every encoding, without what stands beside it."""
    raw = secret.encode()
    inner = [base64.b64encode(b"\0" * before + raw).decode().rstrip("=")[4:-4] for before in range(3)]
    return [secret, quote(secret, safe=""), json.dumps(secret)[1:-1], *(one for one in inner if len(one) > 11)]


KINDS = ("bearer", "header", "query", "basic")
CALLS = """
for at in range(50):
    try:
        print(await {name}_op(with_response=at % 2 == 0))
    except Exception as error:
        print(error)
"""


@pytest.mark.long
async def test_a_thousand_random_echoes_show_the_secret_nowhere(tmp_path):
    """Not to the program, nor in its outcome, the ledger, the events and the log of all libraries."""
    random_ = random.Random(20)
    secrets = {f"api{n}": secret_of(random_) for n in range(20)}
    ledger, events = SqliteLedger(tmp_path / "ledger.db"), []

    def answer(asked):
        _, name, *rest = asked.path.split("/")
        return Answer(404, f'"no {asked.path}"'.encode()) if rest[0] == "gone" else placed(random_, secrets[name])

    with everything_logged() as lines, Serving(answer) as server:
        tools = [
            tool for at, name in enumerate(secrets) for tool in echoing(tmp_path, server, name, secrets, KINDS[at % 4])
        ]
        steps = wrappers(clock=NoWaiting())
        async with toolfold.Runtime(tools, ledger=ledger, steps=steps, listeners=[events.append]) as runtime:
            outcomes = [await runtime.run(CALLS.format(name=name)) for name in secrets]
    kept = [await ledger.load(one.execution_id) for one in outcomes]
    await ledger.close()
    files = [path.read_bytes().decode("latin-1") for path in tmp_path.glob("ledger.db*")]
    shown = "\n".join([*map(repr, (*outcomes, *kept, *events)), *lines, *files])

    assert [(one.status, len(one.calls)) for one in outcomes] == [("finished", 50)] * 20
    assert sum("***" in line for one in outcomes for line in one.stdout.splitlines()) > 600
    assert len(events) > 1000
    assert len(lines) > 1000
    assert [part for secret in secrets.values() for part in shown_parts(secret) if part in shown] == []


def echoing(tmp_path, server, name, secrets, kind):
    path = tmp_path / "api.json"
    path.write_text(json.dumps({"openapi": "3.1.0", "paths": PATHS}))
    auth = ApiAuth(type=kind, secret=secrets[name], name="X-Key", username="me")
    return openapi_tools(path, name=name, base_url=f"{server.url}/{name}", auth=auth)


def secret_of(random_):
    signs = string.ascii_letters + string.digits + '/+&=%"\\ '
    return "a" + "".join(random_.choices(signs, k=random_.randrange(13, 40))) + "Z"


def test_without_the_masking_the_same_echoes_would_show(tmp_path):
    """The control of the test above."""
    answers = [Answer(body=json.dumps({"a": form}).encode()) for form in encodings("tok-12345678/x")]

    with Serving(lambda _: answers.pop(0)) as server:
        tools = api(tmp_path, server, None)
        values = [called(tools, "op")["a"] for _ in range(len(answers))]

    assert values == encodings("tok-12345678/x")


def test_a_program_its_record_and_its_outcome_do_not_have_the_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_TOKEN", "tok-12345678")
    (tmp_path / "api.json").write_text(json.dumps({"openapi": "3.1.0", "paths": PATHS}))

    def answer(asked):
        return Answer(body=json.dumps({"sent": asked.headers["authorization"], "own": asked.headers["x-own"]}).encode())

    with Serving(answer) as server:
        (tmp_path / "toolfold.yaml").write_text(
            "tools:\n  apis:\n  - name: shop\n    spec: api.json\n"
            f"    base_url: {server.url}\n    auth: {{type: bearer, secret: '${{SHOP_TOKEN}}'}}\n"
            "    headers: {X-Own: 'v ${SHOP_TOKEN}'}\n"
        )
        config = load_config(tmp_path / "toolfold.yaml")
        outcome = toolfold.run_sync("print(await shop_op())", tools=declared_tools(config))

    assert outcome.stdout == "{'sent': 'Bearer ***', 'own': 'v ***'}\n"
    assert "tok-12345678" not in repr((outcome, config))
