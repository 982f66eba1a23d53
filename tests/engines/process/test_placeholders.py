"""Libraries for the network that are not installed can be imported; what would need the network fails at the call.

Programs that import one and run are in `accents/imports`.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from toolfold.engines.process.engine import ProcessEngine
from toolfold.engines.process.zygote_launch import LANDLOCK, NAMESPACE, Tier
from toolfold.runtime import Runtime
from toolfold_guest.shared.reserved_names import LIBRARIES

pytestmark = pytest.mark.asyncio(loop_scope="module")

WHY = "cannot work here: there is no network; call a tool instead: price, search_tools"


def price(ticker: str) -> int:
    """The price of one share."""
    return len(ticker)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(tools=[price], engine="process") as runtime:
        yield runtime


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("requests.get('https://a.b')", "requests.ConnectionError: 'requests.get'"),
        ("requests.Session().post('https://a.b')", "requests.ConnectionError: 'requests.Session.post'"),
        ("httpx.Client().get('https://a.b')", "httpx.ConnectError: 'httpx.Client.get'"),
        ("boto3.client('s3').list_buckets()", "botocore.EndpointConnectionError: 'boto3.client.list_buckets'"),
        ("pymysql.connect(host='h')", "pymysql.OperationalError: 'pymysql.connect'"),
        ("websocket.create_connection('ws://a')", "websocket.ConnectionError: 'websocket.create_connection'"),
        ("[row for row in yfinance.Ticker('A').news]", "yfinance.ConnectionError: 'yfinance.Ticker.news'"),
    ],
)
async def test_a_call_that_needs_the_network_says_so(call: str, error: str, runtime: Runtime) -> None:
    module = call.removeprefix("[row for row in ").partition(".")[0]
    # Looked up by its name, so that the check does not see that it is certain to fail.
    outcome = await runtime.run(f"import {module}\n\n\ndef work():\n    return {call}\n\n\nglobals()['work']()")

    assert outcome.problem is not None
    assert (outcome.status, outcome.problem.message) == ("failed", f"{error} {WHY}")


async def test_a_call_that_is_certain_is_told_before_the_first_call(runtime: Runtime) -> None:
    outcome = await runtime.run("import requests\nn = price('AB')\nprint(requests.get(f'https://a.b/{n}').json())")

    assert outcome.problem is not None
    assert (outcome.status, len(outcome.calls)) == ("rejected", 0)
    assert (outcome.problem.line, outcome.problem.message) == (3, f"'requests.get' {WHY}")


async def test_another_library_is_not_installed_as_ever(runtime: Runtime) -> None:
    outcome = await runtime.run("import torch")

    assert outcome.problem is not None
    assert outcome.problem.message == (
        "'torch' is not installed here; use the standard library or call a tool: price, search_tools; "
        "installed are numpy, pandas, matplotlib, scipy, sklearn, seaborn, sympy, openpyxl, tabulate; "
        "the operator can add 'torch' to libraries.packages"
    )


@pytest.mark.parametrize("tier", [NAMESPACE, LANDLOCK], ids=lambda tier: tier.name)
async def test_each_library_of_the_table_can_be_imported_on_each_tier(tier: Tier) -> None:
    text = "".join(f"import {name}\nprint({name}.Some is {name}.Some)\n" for name in LIBRARIES)

    async with Runtime(tools=[price], engine=ProcessEngine(isolation=tier)) as runtime:
        outcome = await runtime.run(text)

    assert (outcome.stdout, outcome.problem) == ("True\n" * len(LIBRARIES), None)


async def test_no_program_pays_for_what_it_does_not_import(runtime: Runtime) -> None:
    outcome = await runtime.run("import sys\n'toolfold_guest.stdlib.network_placeholders' in sys.modules")

    assert outcome.value is False


async def test_a_library_that_is_not_there_on_monty_is_told_before_the_first_call() -> None:
    async with Runtime(tools=[price], engine="monty") as runtime:
        outcome = await runtime.run("import requests\nprint(price('AB'))")

    assert outcome.problem is not None
    assert (outcome.status, outcome.problem.message) == ("rejected", f"'requests' {WHY}")
