"""What needs a network or a process can be imported, and fails at the call, with the words of the check."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from toolfold.runtime import Runtime

pytestmark = pytest.mark.asyncio(loop_scope="module")

NETWORK = "'socket' cannot work here: there is no network; call a tool instead: price, search_tools"
PROCESS = "cannot work here: no process can be started; call a tool instead: price, search_tools"


def price(ticker: str) -> int:
    """The price of one share."""
    return len(ticker)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(tools=[price], engine="process") as runtime:
        yield runtime


@pytest.mark.parametrize(
    ("imports", "call", "message"),
    [
        ("import socket", "socket.socket()", f"PermissionError: [Errno 1] {NETWORK}"),
        ("import socket", "socket.create_connection(('example.com', 80))", f"socket.gaierror: [Errno -3] {NETWORK}"),
        ("import socket", "socket.gethostbyname('example.com')", f"socket.gaierror: [Errno -2] {NETWORK}"),
        (
            "import urllib.request",
            "urllib.request.urlopen('http://example.com')",
            f"urllib.error.URLError: <urlopen error [Errno -3] {NETWORK}>",
        ),
        (
            "import http.client",
            "http.client.HTTPConnection('example.com').request('GET', '/')",
            f"socket.gaierror: [Errno -3] {NETWORK}",
        ),
        ("import smtplib", "smtplib.SMTP('example.com')", f"socket.gaierror: [Errno -3] {NETWORK}"),
        ("import subprocess", "subprocess.run(['ls'])", f"PermissionError: [Errno 1] 'subprocess' {PROCESS}"),
        ("import subprocess", "subprocess.check_output('ls', shell=True)", f"PermissionError: [Errno 1] 'subprocess' {PROCESS}"),
        ("import os", "os.popen('ls')", f"PermissionError: [Errno 1] 'subprocess' {PROCESS}"),
        ("import os", "os.system('ls')", f"PermissionError: [Errno 1] 'os.system' {PROCESS}"),
    ],
)  # fmt: skip
async def test_such_a_call_says_why_it_cannot_work(imports: str, call: str, message: str, runtime: Runtime) -> None:
    # Looked up by its name, so that the check does not see that it is certain to fail.
    outcome = await runtime.run(f"{imports}\n\n\ndef work():\n    return {call}\n\n\nglobals()['work']()")

    assert (outcome.status, outcome.problem and outcome.problem.message) == ("failed", message)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("try:\n    import socket\n    socket.create_connection(('a.b', 1))\nexcept OSError:\n    'offline'\n'offline'", "offline"),
        ("def f():\n    import subprocess\n    try:\n        subprocess.run(['ls'])\n    except OSError:\n        return 1\nf()", 1),
        ("import os, pickle\npickle.loads(pickle.dumps([os.system, os.statvfs])) == [os.system, os.statvfs]", True),
        ("def f():\n    import socket\n    return socket.inet_aton('127.0.0.1').hex()\nf()", "7f000001"),
        ("def f():\n    import socket\n    a, b = socket.socketpair()\n    a.send(b'x')\n    return b.recv(1).decode()\nf()", "x"),
        ("from multiprocessing.pool import ThreadPool\nwith ThreadPool(2) as pool:\n    r = pool.map(abs, [-1, -2])\nr", [1, 2]),
        ("from multiprocessing.dummy import Pool\nPool(2).map(price, ['A', 'BC'])", [1, 2]),
        ("import multiprocessing as mp\nq = mp.Queue()\nq.put(3)\nq.get()", 3),
        ("import multiprocessing as mp\nv = mp.Value('i', 3)\nwith v.get_lock():\n    v.value += 1\nv.value", 4),
        ("import multiprocessing as mp\nlock, some = mp.RLock(), mp.Semaphore(1)\nwith lock, lock:\n    r = some.acquire(), some.acquire(False)\nr", [True, False]),
        ("import joblib\njoblib.Parallel(n_jobs=2)(joblib.delayed(abs)(n) for n in (-1, -2))", [1, 2]),
        ("from concurrent.futures import ProcessPoolExecutor\nif len([]) > 1:\n    ProcessPoolExecutor()\n'imported'", "imported"),
        ("def f():\n    import urllib.request\n    return urllib.request.Request('http://a.b/c').host\nf()", "a.b"),
    ],
)  # fmt: skip
async def test_what_needs_neither_works(text: str, value: object, runtime: Runtime) -> None:
    outcome = await runtime.run(text)

    assert (outcome.value, outcome.problem) == (value, None)
