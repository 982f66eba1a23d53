"""What counts as this machine, for every interface that listens."""

import pytest

from toolfold.interfaces.server.local_requests import is_local_request, is_loopback


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "localhost", "LocalHost"],
)
def test_an_address_of_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host) is True


@pytest.mark.parametrize(
    "host",
    [
        "127.evil.example", "127.0.0.1.nip.io", "127.0.0.1.", "127.1", "0x7f.0.0.1", "2130706433", "localhost.evil.example",
        "evil.localhost", "0.0.0.0", "::", "::2", "::ffff:10.0.0.1", "10.0.0.1", "", "127.0.0.1%0", " 127.0.0.1",
    ],
)  # fmt: skip
def test_a_name_that_looks_like_one_is_not(host: str) -> None:
    assert is_loopback(host) is False


@pytest.mark.parametrize(
    ("headers", "is_here"),
    [
        ({}, True),
        ({"host": "127.0.0.1:8000"}, True),
        ({"host": "[::1]:8000", "origin": "http://[::1]:3000"}, True),
        ({"host": "localhost", "origin": "http://localhost:3000"}, True),
        ({"host": ""}, False),
        ({"host": "127.evil.example"}, False),
        ({"host": "127.0.0.1.nip.io:8000"}, False),
        ({"host": "evil.example@127.0.0.1"}, False),
        ({"host": "127.0.0.1:8000, evil.example"}, False),
        ({"host": "[::1].evil.example"}, False),
        ({"host": "127.0.0.1", "origin": "null"}, False),
        ({"host": "127.0.0.1", "origin": "http://127.evil.example"}, False),
        ({"host": "127.0.0.1", "origin": "http://127.0.0.1@evil.example"}, False),
        ({"host": "127.0.0.1", "origin": "file://127.0.0.1"}, False),
        ({"host": "127.0.0.1", "origin": ""}, False),
    ],
)
def test_a_request_is_from_here_if_host_and_origin_are(headers: dict[str, str], is_here: bool) -> None:
    assert is_local_request([(name.encode(), value.encode()) for name, value in headers.items()]) is is_here


def test_a_second_host_is_checked_too() -> None:
    assert is_local_request([(b"host", b"127.0.0.1"), (b"host", b"evil.example")]) is False
