"""Spellings of a host that two parsers read differently: the secret goes where the allow-list says, or nowhere."""

import datetime
import json
import socket
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import toolfold
from tests.sources.openapi.serving import Answer, Serving
from toolfold.config import load_config
from toolfold.config.build import declared_tools
from toolfold.errors import UsageError
from toolfold.sources.openapi.source import openapi_tools
from toolfold.sources.web.client import fetch_tool
from toolfold.sources.web.credentials import ApiAuth

SECRET = "tok-12345678"
NAMES = ("fass.test", "xn--fa-hia.test", "xn--fass-.test", "xn--b1.test")


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """The system's resolver as an attacker would have it: every name leads to this machine."""
    system = socket.getaddrinfo

    def lookup(host, port, *rest, **options):
        return system("127.0.0.1", port, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in NAMES]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path / "names.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(*form))
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


def encrypted(server, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    return server


def seen(server):
    """Per request: the host that it was meant for, and what proves who sent it."""
    return [
        (asked.headers["host"].rpartition(":")[0], asked.headers.get("authorization", ""), asked.path)
        for asked in server.asked
    ]


def error_of(outcome):
    return outcome.problem.message if outcome.problem else f"no error: {outcome.value!r}"


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("faß.test", "the URL has a host beyond ASCII; write it as 'xn--fa-hia.test'"),
        ("FAẞ.test", "the URL has a host beyond ASCII; write it as 'xn--fa-hia.test'"),
        ("ｆass.test", "the URL has a host beyond ASCII; write its ASCII form"),
        ("fass。test", "the URL has a host beyond ASCII; write it as 'fass.test'"),
        ("fass\u200d.test", "the URL has a host beyond ASCII; write its ASCII form"),
        ("xn--fa-hia.test", "'xn--fa-hia.test' is not among the hosts that the config names"),
        ("xn--fass-.test", "'xn--fass-.test' is not among the hosts that the config names"),
    ],
)
def test_an_international_spelling_of_a_host_gets_no_secret(certificate, host, error):
    with encrypted(Serving(lambda _: Answer()), certificate) as server:
        tool = fetch_tool(
            [f"fass.test:{server.port}", "127.0.0.0/8"],
            secrets={f"fass.test:{server.port}": ApiAuth(type="bearer", secret=SECRET)},
        )
        outcome = toolfold.run_sync(f"await fetch(url='https://{host}:{server.port}/')", tools=[tool])

    assert (seen(server), error_of(outcome)) == ([], f"ToolError: {error}")


@pytest.mark.parametrize("host", ["fass.test", "FASS.Test", "fass.test."])
def test_an_ascii_spelling_of_a_host_gets_the_secret_at_that_host(certificate, host):
    with encrypted(Serving(lambda _: Answer()), certificate) as server:
        tool = fetch_tool(
            [f"fass.test:{server.port}", "127.0.0.0/8"],
            secrets={f"fass.test:{server.port}": ApiAuth(type="bearer", secret=SECRET)},
        )
        outcome = toolfold.run_sync(
            f"(await fetch(url='https://{host}:{server.port}/ä?q=ß#x'))['status']", tools=[tool]
        )

    assert (outcome.value, seen(server)) == (200, [("fass.test", f"Bearer {SECRET}", "/%C3%A4?q=%C3%9F")])


OTHERS = {
    "http://127.0.0.1%.evil.example:{port}/": "the URL must not have '%' in its host",
    "http://127.0.0.1%2eevil.example:{port}/": "the URL must not have '%' in its host",
    "http://127.0.0.1%00.evil.example:{port}/": "the URL must not have '%' in its host",
    "http://[::1%25lo]:{port}/": "the URL must not have '%' in its host",
    "http://127.0.0.1\\@evil.example:{port}/": "the URL must not carry a user name or a password",
    "http://127.0.0.1@evil.example:{port}/": "the URL must not carry a user name or a password",
    "http://127.0.0.1:{port}@evil.example:{port}/": "the URL must not carry a user name or a password",
    "http://127.0.0.1\\.evil.example:{port}/": "the URL has an invalid host",
    "http://127.0.0.1;.evil.example:{port}/": "the URL has an invalid host",
    "http://127.0.0.1..:{port}/": "the URL has an invalid host",
    "http://127.0.0.1 .evil.example:{port}/": "the URL has an invalid host",
    "http://１２７.0.0.1:{port}/": "the URL has a host beyond ASCII; write its ASCII form",
    "http://127.0.0.1:{port}٠/": "the URL has a host beyond ASCII; write it as '127.0.0.1'",
    "http://127.0.0.1:+{port}/": "the URL has an invalid host",
    "http://127.0.0.1:{port}_0/": "the URL has an invalid host",
    "http://127.0.0.1:0/": "the URL has an invalid port",
    "http://127.0.0.1:99999/": "the URL has an invalid port",
    "http://0177.0.0.1:{port}/": "the URL cannot be read: invalid IPv4 address: '0177.0.0.1'",
    "http://0x7f.0.0.1:{port}/": "'0x7f.0.0.1' is not among the hosts that the config names",
    "http://2130706433:{port}/": "'2130706433' is not among the hosts that the config names",
    "http://127.1:{port}/": "'127.1' is not among the hosts that the config names",
    "http://[::ffff:127.0.0.1]:{port}/": "'::ffff:7f00:1' is not among the hosts that the config names",
    "http:\\\\\\\\127.0.0.1:{port}/": "the URL has no host",
    "http://\t127.0.0.1:{port}/": "the URL cannot be read: invalid non-printable ASCII character in URL, '\\t' at position 7",
    "http:127.0.0.1/": "the URL has no host",
}


@pytest.mark.parametrize("url", OTHERS)
def test_a_host_that_two_parsers_read_differently_gets_no_secret(url):
    with Serving(lambda _: Answer()) as server:
        tool = fetch_tool(
            [f"127.0.0.1:{server.port}"], secrets={f"127.0.0.1:{server.port}": ApiAuth(type="bearer", secret=SECRET)}
        )
        program = f"await fetch(url={url.format(port=server.port)!r})"
        outcome = toolfold.run_sync(program, tools=[tool])

    assert (seen(server), error_of(outcome)) == ([], f"ToolError: {OTHERS[url]}")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1."])
def test_an_address_gets_the_secret_however_it_is_written(host):
    with Serving(lambda _: Answer()) as server:
        tool = fetch_tool(
            [f"127.0.0.1:{server.port}"], secrets={f"127.0.0.1:{server.port}": ApiAuth(type="bearer", secret=SECRET)}
        )
        toolfold.run_sync(f"await fetch(url='HTTP://{host}:{server.port}/')", tools=[tool])

    assert seen(server) == [("127.0.0.1", f"Bearer {SECRET}", "/")]


DOCUMENT = {
    "openapi": "3.1.0",
    "paths": {"/a": {"get": {"operationId": "op", "responses": {"200": {"description": "ok"}}}}},
}


@pytest.mark.parametrize("location", ["http://127.0.0.1%.evil.example:{port}/b", "http://loc\u00e4l.test:{port}/b"])
def test_a_redirect_to_such_a_host_is_not_followed(tmp_path, location):
    def answer(asked):
        target = location.format(port=server.port).encode("utf-8").decode("latin-1")
        return Answer(307, b"", {"Location": target}) if asked.path == "/a" else Answer()

    path = tmp_path / "api.json"
    path.write_text(json.dumps(DOCUMENT))
    with Serving(answer) as server:
        tools = openapi_tools(
            path, name="api", base_url=server.url, auth=ApiAuth(type="bearer", secret=SECRET), hosts=["*.test"]
        )
        outcome = toolfold.run_sync("await api_op()", tools=tools)

    assert [path for _, _, path in seen(server)] == ["/a"]
    assert error_of(outcome) == "ToolError: the API redirected to what is no URL"


@pytest.mark.parametrize(
    ("tools", "complaint"),
    [
        ("fetch: {hosts: ['faß.test']}", "tools.fetch: 'faß.test' is not a host; write it as 'xn--fa-hia.test'"),
        ("fetch: {hosts: ['127.0.0.1%.evil.example']}", "tools.fetch: '127.0.0.1%.evil.example' is not a host; write api.example.com, *.example.com, localhost:8080 or 10.0.0.0/8"),
        ("fetch: {hosts: [a.test], secrets: {'faß.test': {type: bearer, secret: tok-12345678}}}", "tools.fetch: secrets: 'faß.test' has a host beyond ASCII; write it as 'xn--fa-hia.test'"),
        ("apis: [{name: a, spec: api.json, base_url: 'https://faß.test/v1'}]", "tools.apis[0]: API 'a': 'base_url' has a host beyond ASCII; write it as 'xn--fa-hia.test'"),
        ("apis: [{name: a, spec: api.json, base_url: 'https://a%2etest/v1'}]", "tools.apis[0]: API 'a': 'base_url' must not have '%' in its host"),
        ("apis: [{name: a, spec: api.json}]", "tools.apis[0]: API 'a': the document's server has a host beyond ASCII; write it as 'xn--fa-hia.test'; set 'base_url'"),
        ("apis: [{name: a, spec: 'https://faß.test/api.json'}]", "tools.apis[0]: API 'a': the document cannot be fetched: its URL has a host beyond ASCII; write it as 'xn--fa-hia.test'"),
        ("apis: [{name: a, spec: api.json, base_url: 'https://a.test', auth: {type: oauth2, client_id: me, secret: tok-12345678, token_url: 'https://faß.test/token'}}]", "tools.apis[0]: API 'a': 'faß.test' is not a host; write it as 'xn--fa-hia.test'"),
    ],
)  # fmt: skip
def test_a_config_names_hosts_in_ascii(tmp_path, tools, complaint):
    (tmp_path / "api.json").write_text(json.dumps({**DOCUMENT, "servers": [{"url": "https://faß.test/v1"}]}))
    (tmp_path / "toolfold.yaml").write_text(f"tools: {{{tools}}}")
    config = load_config(tmp_path / "toolfold.yaml")

    with pytest.raises(UsageError) as caught:
        declared_tools(config)

    assert str(caught.value) == f"{tmp_path}/toolfold.yaml:1: {complaint}"
