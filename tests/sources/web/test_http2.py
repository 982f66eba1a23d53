"""HTTP/2 where a server speaks it: a small one over TLS, made with `h2`."""

import asyncio
import datetime
import ipaddress
import json
import ssl
from contextlib import asynccontextmanager

import h2.config
import h2.connection
import h2.events
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import toolfold
from toolfold.sources.openapi.source import openapi_tools
from toolfold.sources.web.credentials import ApiAuth

SECRET = "tok-12345678"


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """One for loopback, which this process trusts."""
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
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path / "loopback.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(*form))
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


@asynccontextmanager
async def serving(certificate, protocols):
    """A server that echoes what it was asked; `connections` has how each of them spoke."""
    connections = []

    async def serve(reader, writer):
        connections.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        talk = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        talk.initiate_connection()
        writer.write(talk.data_to_send())
        while data := await reader.read(65536):
            for event in talk.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    asked = {name.decode(): value.decode() for name, value in event.headers}
                    body = json.dumps({"path": asked[":path"], "auth": asked.get("authorization")}).encode()
                    talk.send_headers(event.stream_id, [(":status", "200"), ("content-type", "application/json")])
                    talk.send_data(event.stream_id, body, end_stream=True)
            writer.write(talk.data_to_send())
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(protocols)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", connections


async def test_calls_at_once_share_one_connection_of_http2_and_show_no_secret(tmp_path, certificate):
    parameter = {"name": "n", "in": "path", "schema": {"type": "integer"}}
    paths = {"/a/{n}": {"get": {"operationId": "op", "parameters": [parameter], "responses": {"200": {}}}}}
    path = tmp_path / "api.json"
    path.write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))
    program = """
await api_op(n=0)
print([reply["path"] for reply in await asyncio.gather(*[api_op(n=n) for n in range(1, 21)])])
print((await api_op(n=21))["auth"])
"""

    async with serving(certificate, ["h2"]) as (url, connections):
        tools = openapi_tools(path, name="api", base_url=url, auth=ApiAuth(type="bearer", secret=SECRET))
        async with toolfold.Runtime(tools) as runtime:
            outcome = await runtime.run(program)

    assert (outcome.status, outcome.stdout) == ("finished", f"{[f'/a/{n}' for n in range(1, 21)]}\nBearer ***\n")
    assert connections == ["h2"]
