"""A server that is killed between the rounds of bash programs: the next one goes on with them, and makes no call twice."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interfaces.http.fleet import TOOLS
from tests.interfaces.http.talk import LIBRECHAT, go_on, result, start
from tests.interfaces.http.test_restart import ready, server
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401

pytestmark = pytest.mark.long

CONFIG = """
http: {{keys: {{one: key-of-one}}, port: 0, files: files, lease: 2s, waiting: 500, preload_data: false}}
tools: {{modules: [tools.py]}}
ledger: {{where: "{where}"}}
"""
ENV = 'export GIT_AUTHOR_NAME="A. U. Thor"\n'
SEQUENTIAL = """
a=$(get_weather '{"city":"seq-1"}')
charge '{"name":"seq-1"}'
b=$(get_weather "$(jq -c '{city: "seq-\\(.temp)-2"}' <<<"$a")")
charge '{"name":"seq-2"}'
c=$(get_weather '{"city":"seq-3"}')
charge '{"name":"seq-3"}'
echo "$a $b $c" | jq -s 'map(.temp) | add'
"""
LOOP = """
total=0
for city in loop-1 loop-2 loop-3; do
  temp=$(get_weather "{\\"city\\":\\"$city\\"}" | jq -r .temp)
  charge "{\\"name\\":\\"$city\\"}" >> bills.txt
  total=$((total + temp))
done
echo "$total $(wc -l < bills.txt)"
"""
# The jobs of each round come in another order each time.
JOBS = """
for round in 1 2 3; do
  for job in a b c d; do
    {
      sleep 0.0$((RANDOM % 9))
      charge "{\\"name\\":\\"job-$round-$job\\"}"
      get_weather "{\\"city\\":\\"job-$round-$job\\"}" | jq -r .city
    } &
  done | sort
  wait
done
"""
# The same call several times at once: each of the replies is given once.
TWINS = """
for round in 1 2 3; do
  for job in a b; do
    { sleep 0.0$((RANDOM % 9)); get_weather '{"city":"twin"}' | jq .number; } &
  done | sort
  wait
done
"""
XARGS = """
for round in 1 2 3; do
  printf '{"city":"xargs-%s-%s"}\\0' $round a $round b | xargs -0 -n1 -P2 get_weather | jq -r .city | sort
done
"""
PYTHON = """
python3 - <<'PY'
import tools
total = 0
for number in range(1, 4):
    total += tools.get_weather(city=f"python-{number}")["temp"] + tools.charge({"name": f"python-{number}"})
print(total)
PY
"""
FAILING = """
set -euo pipefail
trap 'echo "over: $?"' EXIT
get_weather '{"city":"fail-1"}' || echo handled
get_weather '{"city":"set-e-2"}' | jq .temp
charge '{"name":"set-e"}'
get_weather '{"city":"fail-3"}'
charge '{"name":"never"}'
"""
JOB_NAMES = [f"job-{n}-{job}" for n in (1, 2, 3) for job in "abcd"]
JOB_LINES = [line for n in (0, 4, 8) for line in ("1", "1", "1", "1", *JOB_NAMES[n : n + 4])]
XARGS_NAMES = [f"xargs-{n}-{job}" for n in (1, 2, 3) for job in "ab"]
EXPECTED = {
    SEQUENTIAL: ("1\n1\n1\n17\n", ["seq-1", "seq-3", "seq-5-2"]),
    LOOP: ("18 3\n", ["loop-1", "loop-2", "loop-3"]),
    JOBS: ("\n".join(JOB_LINES) + "\n", JOB_NAMES),
    TWINS: ("1\n2\n3\n4\n5\n6\n", ["twin"] * 6),
    XARGS: ("\n".join(XARGS_NAMES) + "\n", XARGS_NAMES),
    PYTHON: ("27\n", ["python-1", "python-2", "python-3"]),
    FAILING: ("handled\n7\n1\nover: 1\n", ["fail-1", "fail-3", "set-e-2"]),
}
"""What each of them prints, and the calls that its client is asked for."""
CHARGED = sorted([*(f"{name}-{n}" for name in ("seq", "loop", "python") for n in (1, 2, 3)), *JOB_NAMES, "set-e"])


@pytest.fixture(params=["sqlite", "redis"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    (tmp_path / "tools.py").write_text(TOOLS, "utf-8")
    if request.param == "sqlite":
        return "ledger.sqlite"
    redis: RedisServer = request.getfixturevalue("redis_server")
    return redis.url


class Customer:
    """A client with one program, which answers each call once."""

    def __init__(self, code: str) -> None:
        self._code = code
        self.asked: list[str] = []
        self.body: dict[str, Any] = {}

    @property
    def is_asked(self) -> bool:
        return self.body["status"] == "tool_call_required"

    async def start(self, client: httpx.AsyncClient) -> None:
        self.body = await patient(lambda: start(client, ENV + self._code, lang="bash", headers=LIBRECHAT))

    async def answer(self, client: httpx.AsyncClient) -> None:
        results = [self._result(call) for call in self.body["tool_calls"]]
        token = self.body["continuation_token"]
        self.body = await patient(lambda: go_on(client, token, *results, headers=LIBRECHAT))

    def _result(self, call: dict[str, Any]) -> dict[str, Any]:
        city = call["input"]["city"]
        self.asked.append(city)
        if city.startswith("fail"):
            return {"call_id": call["id"], "result": None, "is_error": True, "error_message": f"no {city}"}
        return result(call, {"city": city, "temp": len(city), "number": len(self.asked)})


async def patient(send: Callable[[], Awaitable[httpx.Response]]) -> dict[str, Any]:
    """The answer to a request, sent as often as the server says that it cannot now."""
    while (response := await send()).status_code == 503:
        await asyncio.sleep(0.02)
    return response.json()


@pytest.mark.parametrize("kills", [{1, 2, 3}, {2}, {3}], ids=["each", "second", "third"])
async def test_bash_programs_outlive_a_kill_between_their_rounds(where: str, kills: set[int], tmp_path: Path) -> None:
    customers = {code: Customer(code) for code in EXPECTED}
    rounds, waiting = 0, list(customers.values())
    while waiting:
        with server(tmp_path, CONFIG.format(where=where)) as (process, client):
            async with client:
                await ready(client)
                while waiting and (not rounds or rounds not in kills):
                    await asyncio.gather(*(one.answer(client) if rounds else one.start(client) for one in waiting))
                    waiting = [one for one in waiting if one.is_asked]
                    rounds += 1
                kills = kills - {rounds}
                process.kill()

    shown = {code: (one.body.get("stdout", one.body), sorted(one.asked)) for code, one in customers.items()}
    assert shown == EXPECTED
    assert customers[FAILING].body["stderr"].startswith("the program exited with status 1\nno fail-1\nno fail-3\n")
    assert sorted((tmp_path / "charged.txt").read_text().split()) == CHARGED
