"""Isolation holds through this interface, too; the attacks themselves are in `tests/escapes`."""

import httpx

from tests.interfaces.http.talk import start


async def test_a_program_over_http_is_in_the_jail(client: httpx.AsyncClient) -> None:
    code = """
import os
def tried(name, attempt):
    try:
        print(name, attempt())
    except BaseException as error:
        print(name, "refused")
tried("shadow", lambda: open("/etc/shadow").read())
tried("socket", lambda: __import__("socket").create_connection(("127.0.0.1", 80)))
tried("fork", os.fork)
tried("exec", lambda: os.execv("/bin/sh", ["sh"]))
tried("host", lambda: os.listdir("/proc/1"))
print([name for name in os.environ if "KEY" in name])
"""

    body = (await start(client, code)).json()

    assert body["stdout"].splitlines() == [
        *(f"{name} refused" for name in ("shadow", "socket", "fork", "exec", "host")),
        "[]",
    ]
