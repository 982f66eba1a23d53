import asyncio
import socket
import urllib.request

import pytest

from tests.sources.openapi.serving import Answer, Serving
from toolfold.errors import ToolError, ToolRefused, UsageError
from toolfold.sources.web import network
from toolfold.sources.web.client import WebClient
from toolfold.sources.web.hosts import Hosts, origin_of
from toolfold.sources.web.messages import WebRequest


def sent(client, url, method="GET", content=None):
    async def send():
        try:
            return await client.send(WebRequest(method=method, url=url, content=content))
        finally:
            await client.close()

    return asyncio.run(send())


def resolving(*answers):
    """A resolver that gives these addresses, one list for each lookup, the last again and again."""
    left = list(answers)

    async def resolve(host, port):
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


def plain_status(url):
    """The control: what a client without the guard gets."""
    with urllib.request.urlopen(url) as answer:
        return answer.status


SPELLINGS = [
    "127.0.0.1",
    "localhost",
    "2130706433",
    "0177.0.0.1",
    "0x7f.0.0.1",
    "127.1",
    "[::ffff:127.0.0.1]",
    "0.0.0.0",
]


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_loopback_address_is_refused_however_it_is_spelt_and_would_have_answered(host):
    with Serving(lambda _: Answer()) as server:
        url = f"http://{host}:{server.port}/"
        control = plain_status(url)
        # Named for the lookup of names, not as an address: what is left is the check of the address.
        client = WebClient(["placeholder.example"])
        client.hosts.permits = lambda origin: True

        with pytest.raises(ToolRefused, match=r"leads to the private address|cannot be sent: Invalid IPv4"):
            sent(client, url)

    assert control == 200
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.8.9.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
     "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
     "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "::127.0.0.1", "::ffff:0:127.0.0.1", "fec0::1", "5f00::1", "ff02::1",
     "2002:7f00:1::", "2001:0:7f00:1::", "192.0.0.1", "198.18.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "not an address"],
)  # fmt: skip
def test_private_addresses_are_not_permitted_and_public_ones_are(address):
    hosts = Hosts(["api.example.com"])

    assert not hosts.permits_address(address)
    assert hosts.permits_address("93.184.216.34")
    assert hosts.permits_address("2606:2800:220:1:248:1893:25c8:1946")


def test_an_address_that_is_named_is_permitted_and_its_neighbours_are_not():
    hosts = Hosts(["10.0.0.0/24", "http.example", "localhost:81"])

    permitted = [
        one for one in ("10.0.0.7", "10.0.1.7", "127.0.0.1", "::1", "192.168.0.1") if hosts.permits_address(one)
    ]

    assert permitted == ["10.0.0.7", "127.0.0.1", "::1"]


def test_a_name_whose_answer_changes_is_connected_to_as_it_was_checked(monkeypatch):
    with Serving(lambda _: Answer()) as server:
        url = f"http://rebind.example:{server.port}/"
        public_then_private = resolving(["203.0.113.1"], ["127.0.0.1"])
        client = WebClient(["rebind.example"], resolve=public_then_private)
        client.hosts.permits_address = lambda address: address == "203.0.113.1"
        reached = []

        async def connect(self, host, port, *rest):
            reached.append(host)
            raise network.httpcore2.ConnectError("no route")

        monkeypatch.setattr(network.httpcore2.AnyIOBackend, "connect_tcp", connect)
        with pytest.raises(ToolError):
            sent(client, url)
        monkeypatch.undo()
        later = WebClient(["rebind.example"], resolve=resolving(["127.0.0.1"]))
        with pytest.raises(ToolRefused, match=r"'rebind\.example' leads to the private address 127\.0\.0\.1"):
            sent(later, url)
        allowed = WebClient(["rebind.example", "127.0.0.0/8"], resolve=resolving(["127.0.0.1"]))
        control = sent(allowed, url).status

    assert (reached, control, len(server.asked)) == (["203.0.113.1"], 200, 1)


@pytest.mark.parametrize(
    "url",
    ["http://evil.example/", "http://api.example.com.evil.example/", "http://api.example.com@evil.example/",
     "http://evil.example\\@api.example.com/", "ftp://api.example.com/", "file:///etc/passwd", "http:///x", "//x/y",
     "http://notexample.org/", "http://api.example.com:81/x"],
)  # fmt: skip
def test_only_named_hosts_are_asked(url):
    client = WebClient(["api.example.com:80", "*.example.org"], resolve=resolving(["203.0.113.1"]))

    with pytest.raises(ToolRefused):
        sent(client, url)
    assert client.hosts.permits(origin_of("http://API.example.com./x"))
    assert client.hosts.permits(origin_of("https://a.b.example.org/x"))


@pytest.mark.parametrize("entry", ["", "a b", "http://x", "x/y", "*", "a*b.example", "x:port", "u@x"])
def test_what_is_no_host_is_refused_with_an_example(entry):
    with pytest.raises(UsageError, match=r"is not a host; write api\.example\.com"):
        Hosts([entry])


def redirecting(other):
    def answer(asked):
        if asked.path == "/there":
            return Answer(302, b"", {"Location": f"http://localhost:{other.port}/secret"})
        if asked.path == "/here":
            return Answer(307, b"", {"Location": "/end"})
        if asked.path == "/round":
            return Answer(302, b"", {"Location": "/round"})
        return Answer(body=b'"end"')

    return answer


def test_redirects_stay_within_the_origin_unless_the_other_host_is_named():
    with Serving(lambda _: Answer(body=b'"other"')) as other, Serving(redirecting(other)) as server:
        own = ["127.0.0.1"]
        within = sent(WebClient(own), f"{server.url}/here", "POST", b"x")
        with pytest.raises(ToolRefused, match="the API redirected to 'localhost', which is not followed"):
            sent(WebClient(own), f"{server.url}/there")
        refused = len(other.asked)
        followed = sent(WebClient([*own, "localhost"]), f"{server.url}/there")
        with pytest.raises(ToolRefused, match="which is not followed"):
            sent(WebClient([*own, "localhost"]), f"{server.url}/there", "POST", b"x")
        with pytest.raises(ToolError, match="redirected more than 5 times"):
            sent(WebClient(own), f"{server.url}/round")

    assert (within.content, server.asked[1].method, server.asked[1].body) == (b'"end"', "POST", b"x")
    assert (refused, followed.content, len(other.asked)) == (0, b'"other"', 1)


def test_a_reply_that_is_too_large_is_not_read_to_its_end():
    with Serving(lambda _: Answer(body=b"x" * 2000)) as server, pytest.raises(ToolError, match="more than 1,000 bytes"):
        sent(WebClient(["127.0.0.1"], max_bytes=1000), server.url)


def test_a_host_that_is_not_there_says_that_nothing_ran():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(ToolError, match=r"'127\.0\.0\.1' cannot be reached") as caught:
            sent(WebClient(["127.0.0.1"]), f"http://127.0.0.1:{held.getsockname()[1]}/")

    assert caught.value.nothing_ran
