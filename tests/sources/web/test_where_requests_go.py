import asyncio
import contextlib
import json
import socket
import struct
import subprocess
import sys
import threading
import urllib.request

import pytest

from tests.sources.openapi.serving import Answer, Serving
from toolfold.errors import ToolError, ToolRefused, UsageError
from toolfold.sources.web import guarded_network
from toolfold.sources.web.client import WebClient
from toolfold.sources.web.credentials import WebRequest
from toolfold.sources.web.guarded_network import Hosts, origin_of


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
    "0x7f000001",
    "017700000001",
    "127.1",
    "127.0.1",
    "127.8.9.1",
    "[::ffff:127.0.0.1]",
    "0.0.0.0",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
]


def has_new_loopback():
    try:
        with socket.socket(socket.AF_INET6) as free:
            free.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_loopback_address_is_refused_however_it_is_spelt_and_would_have_answered(host, unproven):
    is_new = host in ("[::1]", "[0:0:0:0:0:0:0:1]", "[::]")
    if is_new and not has_new_loopback():
        unproven.append("this machine has no ::1, so nothing shows that requests to it would have been answered")
        return
    # All addresses of this machine within 127.0.0.0/8, not only the usual one.
    with Serving(
        lambda _: Answer(), "::1" if is_new else "127.8.9.1" if host == "127.8.9.1" else "127.0.0.1"
    ) as server:
        url = f"http://{host}:{server.port}/"
        control = plain_status(url)
        # Named for the lookup of names, not as an address: what is left is the check of the address.
        client = WebClient(["placeholder.example"])
        client.hosts.permits = lambda origin: True

        with pytest.raises(ToolRefused, match=r"leads to the private address|cannot be read: invalid IPv4"):
            sent(client, url)

    assert control == 200
    assert len(server.asked) == 1


IN_A_NETWORK_OF_ITS_OWN = [
    "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "198.18.0.1", "192.0.2.1", "192.0.0.1",
    "240.0.0.1", "fc00::1", "fec0::1", "5f00::1", "2001:0:7f00:1::",
]  # fmt: skip


def test_servers_at_private_addresses_are_refused_and_would_have_answered(unproven):
    wanted = [one for one in IN_A_NETWORK_OF_ITS_OWN if ":" not in one or has_new_loopback()]
    command = [sys.executable, "-m", "tests.sources.web.private_hosts", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare: " in done.stderr:
        unproven.append("this machine gives no network of one's own, so no server could be put at a private address")
        return

    refusal = "{0!r} leads to the private address {0}; if that is meant, name the address in 'hosts'"
    assert done.stderr == ""
    assert json.loads(done.stdout) == {address: [200, refusal.format(address)] for address in wanted}


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.8.9.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
     "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
     "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "::127.0.0.1", "::ffff:0:127.0.0.1", "fec0::1", "5f00::1", "ff02::1",
     "2002:7f00:1::", "2001:0:7f00:1::", "192.0.0.1", "198.18.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "not an address"],
)  # fmt: skip
def test_private_addresses_are_not_permitted_and_public_ones_are(address):
    hosts = Hosts(["api.example.com"])

    assert not hosts.permits_address(address, 80)
    assert hosts.permits_address("93.184.216.34", 80)
    assert hosts.permits_address("2606:2800:220:1:248:1893:25c8:1946", 80)


def test_an_address_that_is_named_is_permitted_and_its_neighbours_are_not():
    hosts = Hosts(["10.0.0.0/24", "http.example", "localhost:81", "192.168.0.2:8080", "[fd00::1]:82"])
    addresses = ("10.0.0.7", "10.0.1.7", "127.0.0.1", "::1", "192.168.0.1", "192.168.0.2", "fd00::1")

    permitted = [
        (address, port) for address in addresses for port in (81, 82, 8080) if hosts.permits_address(address, port)
    ]

    assert permitted == [
        ("10.0.0.7", 81), ("10.0.0.7", 82), ("10.0.0.7", 8080), ("127.0.0.1", 81), ("::1", 81), ("192.168.0.2", 8080),
        ("fd00::1", 82),
    ]  # fmt: skip


@contextlib.contextmanager
def local_resolver(*answers):
    """A name server on loopback: one address for each question, the last again and again; and who asks it."""
    left = list(answers)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def serve():
        while True:
            question, client = server.recvfrom(512)
            if question == b"end":
                return
            address = left.pop(0) if len(left) > 1 else left[0]
            # The same id and question, one answer: a pointer to the name, type A, class IN, no time to live.
            answer = b"\xc0\x0c\x00\x01\x00\x01" + struct.pack("!IH", 0, 4) + socket.inet_aton(address)
            server.sendto(question[:2] + b"\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" + question[12:] + answer, client)

    async def resolve(host, port):
        name = b"".join(bytes([len(label)]) + label.encode() for label in host.split(".")) + b"\0"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.connect(server.getsockname())
            asking.send(b"\x12\x34\x01\x00\x00\x01" + bytes(6) + name + b"\x00\x01\x00\x01")
            return [socket.inet_ntoa(asking.recv(512)[-4:])]

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield resolve
    finally:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.sendto(b"end", server.getsockname())
        thread.join()
        server.close()


async def naive_status(hosts, resolve, name, port):
    """The control: looks a name up, checks what it found, and connects to the name."""
    [checked] = await resolve(name, port)
    assert hosts.permits_address(checked, port)
    [reached] = await resolve(name, port)
    return await asyncio.to_thread(plain_status, f"http://{reached}:{port}/")


PUBLIC = "93.184.216.34"


def test_a_name_whose_answer_changes_is_connected_to_as_it_was_checked(monkeypatch):
    reached = []

    async def connect(self, host, port, *rest):
        reached.append(host)
        raise guarded_network.httpcore2.ConnectError("no route")

    with Serving(lambda _: Answer()) as server:
        url = f"http://rebind.example:{server.port}/"
        with local_resolver(PUBLIC, "127.0.0.1") as resolve:
            control = asyncio.run(naive_status(Hosts(["rebind.example"]), resolve, "rebind.example", server.port))
        with local_resolver(PUBLIC, "127.0.0.1") as resolve:
            client = WebClient(["rebind.example"], resolve=resolve)
            with monkeypatch.context() as patch:
                patch.setattr(guarded_network.httpcore2.AnyIOBackend, "connect_tcp", connect)
                with pytest.raises(ToolError, match="cannot be reached"):
                    sent(client, url)
            with pytest.raises(ToolRefused, match=r"'rebind\.example' leads to the private address 127\.0\.0\.1"):
                sent(client, url)
            named = WebClient(["rebind.example", "127.0.0.0/8"], resolve=resolve)
            allowed = sent(named, url).status

    assert (control, reached, allowed, len(server.asked)) == (200, [PUBLIC], 200, 2)


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
