"""Libraries for the network that are not installed can be imported; what would need the network fails at the call."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from toolfold.engines.process.engine import ProcessEngine
from toolfold.engines.process.tiers import LANDLOCK, NAMESPACE, Tier
from toolfold.runtime import Runtime
from toolfold_guest.offline import LIBRARIES

pytestmark = pytest.mark.asyncio(loop_scope="module")

WHY = "cannot work here: there is no network; call a tool instead: price, search_tools"


def price(ticker: str) -> int:
    """The price of one share."""
    return len(ticker)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(tools=[price], engine="process") as runtime:
        yield runtime


RUNS = [
    ("import requests\nprint(price('AB'))", "2\n"),
    ("import httpx\nimport aiohttp, boto3, psycopg2\nprint(1)", "1\n"),
    ("try:\n    import requests\nexcept ImportError:\n    requests = None\nprint(requests is not None)", "True\n"),
    ("import requests\nsession = requests.Session()\nsession.headers.update({'a': 'b'})\nprint(session.headers)", "{'a': 'b'}\n"),
    (
        "import requests\nfrom requests.adapters import HTTPAdapter\nfrom urllib3.util.retry import Retry\n"
        "s = requests.Session()\ns.mount('https://', HTTPAdapter(max_retries=Retry(total=3)))\ns.close()\nprint('ready')",
        "ready\n",
    ),
    (
        "import requests\ntry:\n    requests.get('https://a.b')\nexcept requests.RequestException as error:\n"
        "    print(type(error).__name__, error.response)",
        "ConnectionError None\n",
    ),
    (
        "import requests\nfrom requests.exceptions import ConnectionError, HTTPError, Timeout\n"
        "try:\n    requests.post('https://a.b', json={})\nexcept (Timeout, HTTPError):\n    print('no')\n"
        "except ConnectionError:\n    print('offline')",
        "offline\n",
    ),
    (
        "import requests\ntry:\n    raise requests.exceptions.HTTPError('404', response=None)\n"
        "except requests.exceptions.RequestException as e:\n    print(e, requests.HTTPError is requests.exceptions.HTTPError)",
        "404 True\n",
    ),
    (
        "from unittest.mock import MagicMock, patch\nimport requests\ndef fetch(url):\n    return requests.get(url).json()\n"
        "with patch('requests.get') as get:\n    get.return_value.json.return_value = {'a': 1}\n    print(fetch('https://a.b'))",
        "{'a': 1}\n",
    ),
    (
        "from unittest import mock\nimport requests\nresponse = mock.Mock(spec=requests.Response)\n"
        "response.status_code = requests.codes.ok\nresponse.json.return_value = [1]\n"
        "with mock.patch.object(requests.Session, 'get', return_value=response):\n"
        "    r = requests.Session().get('https://a.b')\n    print(r.status_code, r.json(), isinstance(r, requests.Response))",
        "200 [1] True\n",
    ),
    (
        "import requests\nr = requests.Response()\nr.status_code = 404\nr._content = b'{\"a\": 1}'\n"
        "print(r.ok, r.json(), r.text)\ntry:\n    r.raise_for_status()\nexcept requests.HTTPError as e:\n    print(e.response is r)",
        "False {'a': 1} {\"a\": 1}\nTrue\n",
    ),
    (
        "import aiohttp, asyncio\nasync def fetch(s, u):\n    async with s.get(u) as r:\n        return await r.text()\n"
        "async def main():\n    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as s:\n"
        "        return await asyncio.gather(*[fetch(s, u) for u in 'ab'], return_exceptions=True)\n"
        "print([isinstance(e, aiohttp.ClientError) for e in asyncio.run(main())])",
        "[True, True]\n",
    ),
    (
        "import asyncio, httpx\nasync def main():\n    async with httpx.AsyncClient() as c:\n        try:\n"
        "            await c.get('https://a.b')\n        except httpx.HTTPError as e:\n            print('offline')\nasyncio.run(main())",
        "offline\n",
    ),
    ("import psycopg2\ntry:\n    psycopg2.connect('x')\nexcept psycopg2.Error:\n    print('no database')", "no database\n"),
    ("import redis\ntry:\n    redis.Redis(host='h').get('k')\nexcept redis.ConnectionError:\n    print('no redis')", "no redis\n"),
    ("import boto3\nfrom botocore.exceptions import ClientError\ns3 = boto3.client('s3')\nprint(callable(s3.put_object))", "True\n"),
    (
        "import warnings, urllib3\nfrom urllib3.exceptions import InsecureRequestWarning\nurllib3.disable_warnings()\n"
        "warnings.simplefilter('ignore', InsecureRequestWarning)\nprint('quiet')",
        "quiet\n",
    ),
    (
        "from selenium import webdriver\nfrom selenium.webdriver.common.by import By\nfrom selenium.webdriver.chrome.options import Options\n"
        "o = Options()\no.add_argument('--headless')\nprint('set up')",
        "set up\n",
    ),
    ("import openai\nclient = openai.OpenAI(api_key='k')\ntry:\n    client.chat.completions.create(model='m')\nexcept openai.APIError:\n    print('offline')", "offline\n"),
    ("from google.cloud import storage\nprint('imported')", "imported\n"),
    ("import requests\ndef get(s: requests.Session | None) -> requests.Response: ...\nprint(requests.utils.quote('a b'))", "a%20b\n"),
    ("import asyncio, aiohttp\nasync def main():\n    s = aiohttp.ClientSession()\n    await s.close()\n    return 1\nprint(asyncio.run(main()))", "1\n"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "printed"), RUNS)
async def test_a_program_that_does_not_reach_for_the_network_runs(text: str, printed: str, runtime: Runtime) -> None:
    outcome = await runtime.run(text)

    assert (outcome.stdout, outcome.problem) == (printed, None)


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
        "'torch' is not installed here; use the standard library or call a tool: price, search_tools"
    )


@pytest.mark.parametrize("tier", [NAMESPACE, LANDLOCK], ids=lambda tier: tier.name)
async def test_each_library_of_the_table_can_be_imported_on_each_tier(tier: Tier) -> None:
    text = "".join(f"import {name}\nprint({name}.Some is {name}.Some)\n" for name in LIBRARIES)

    async with Runtime(tools=[price], engine=ProcessEngine(isolation=tier)) as runtime:
        outcome = await runtime.run(text)

    assert (outcome.stdout, outcome.problem) == ("True\n" * len(LIBRARIES), None)


async def test_no_program_pays_for_what_it_does_not_import(runtime: Runtime) -> None:
    outcome = await runtime.run("import sys\n'toolfold_guest.placeholders' in sys.modules")

    assert outcome.value is False


async def test_a_library_that_is_not_there_on_monty_is_told_before_the_first_call() -> None:
    async with Runtime(tools=[price], engine="monty") as runtime:
        outcome = await runtime.run("import requests\nprint(price('AB'))")

    assert outcome.problem is not None
    assert (outcome.status, outcome.problem.message) == ("rejected", f"'requests' {WHY}")
