"""Starts, answers, duplicates, parts, cancels, deadlines and restarts in any order, against a model of a few lines."""

import asyncio
import shutil
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.interfaces.http.conftest import KEYS, inside
from tests.interfaces.http.talk import go_on, metric, result, start
from toolfold.engines.base import EngineWrapper
from toolfold.engines.process import ProcessEngine
from toolfold.interfaces.http import Settings
from toolfold.ledger.ledger_factory import open_ledger

CODE = """
total = 0
for i in range(3):
    a, b = await asyncio.gather(get_weather(city=f"{i}a"), get_weather(city=f"{i}b"))
    total = total * 10 + a + b
print(total)
"""
"""Two calls at a time, three times."""
INVALID, EXPIRED, CANCELLED = "Invalid continuation token", "Execution expired", "Execution cancelled"


class Loop(asyncio.SelectorEventLoop):
    """Whose clock can be moved on."""

    ahead_seconds = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_seconds


class Lasting(EngineWrapper):
    """An engine that outlives its runtimes: a restart loses all that they knew, and costs no new fork server."""

    async def __aenter__(self) -> "Lasting":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


@dataclass(eq=False)
class Model:
    """What is known of one execution from its answers alone."""

    body: dict[str, Any]
    """The last answer."""
    deadline: float
    state: str = "paused"
    taken: list[tuple[str, list[Any], dict[str, Any]]] = field(default_factory=list)
    """Each continuation that was taken: token, results, answer."""
    is_held: bool = True
    """By this process; after a restart not before its next continuation."""
    is_past_the_last: bool = False
    """Since a restart the newest token was shown, though not taken: the one before it may be forgotten."""


class ServerMachine(RuleBasedStateMachine):
    """A server on SQLite, its clients, and the time."""

    loop: Loop
    engine: ProcessEngine
    executions = Bundle("executions")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="states-"))
        self.models: list[Model] = []
        self.loop.run_until_complete(self._open())

    def teardown(self) -> None:
        self.loop.run_until_complete(self._nothing_is_left())
        self.loop.run_until_complete(self._stack.aclose())
        shutil.rmtree(self.folder)

    @rule(target=executions, seconds=st.sampled_from([20, 200]))
    def start(self, seconds: int) -> Model:
        deadline = self._now() + seconds
        body = self._do(start(self.client, CODE, timeout=seconds * 1000))
        model = Model(body, deadline)
        assert [call["id"] for call in body["tool_calls"]] == ["call_001", "call_002"]
        self.models.append(model)
        return model

    @rule(model=executions, part=st.sampled_from(["all", "all", "reversed", "first", "last"]))
    def answer(self, model: Model, part: str) -> None:
        if model.state != "paused":
            return
        calls = model.body["tool_calls"]
        some = {"all": calls, "reversed": calls[::-1], "first": calls[:1], "last": calls[-1:]}[part]
        results = [result(call, int(call["input"]["city"][0]) + 1) for call in some]
        token = model.body["continuation_token"]

        got = self._do(go_on(self.client, token, *results))

        rest = [call["id"] for call in calls if call not in some]
        if got["status"] == "tool_call_required":
            ids = [call["id"] for call in got["tool_calls"]]
            assert ids == rest if rest else len(ids) == 2 and min(ids) > max(call["id"] for call in calls)
        else:
            assert (got["status"], got["stdout"], rest) == ("completed", "246\n", [])
            model.state = "ended"
        model.taken.append((token, results, got))
        model.body, model.is_held, model.is_past_the_last = got, True, False

    @rule(model=executions, at=st.integers(0, 5))
    def repeat(self, model: Model, at: int) -> None:
        """A continuation that was taken, as it was and with other results."""
        if not model.taken:
            return
        token, results, answer = model.taken[at % len(model.taken)]
        is_last = at % len(model.taken) == len(model.taken) - 1

        got = self._do(go_on(self.client, token, *results))
        other = self._do(go_on(self.client, token, *({**one, "result": 99} for one in results)))

        # A new process signs the same pause again: all but the token is the same then.
        is_the_same = [got.get(key) == answer.get(key) for key in ("status", "stdout", "tool_calls", "error")]
        if model.state == "expired":
            assert (got["error"], other["error"]) == (EXPIRED, EXPIRED)
        elif is_last and model.state == "cancelled":
            assert all(is_the_same) or got["error"] in (INVALID, EXPIRED, CANCELLED)
        elif is_last and model.is_past_the_last:
            assert all(is_the_same) or got["error"] == INVALID
        elif is_last:
            assert all(is_the_same)
        else:
            assert got["error"] == INVALID
        assert other["error"] in (INVALID, EXPIRED)
        if is_last and model.state == "paused":
            model.is_held = True

    @rule(model=executions)
    def go_on_after_the_end(self, model: Model) -> None:
        if model.state in ("cancelled", "expired") and "continuation_token" in model.body:
            results = [result(call, 1) for call in model.body["tool_calls"]]
            got = self._do(go_on(self.client, model.body["continuation_token"], *results))
            assert got["error"] in ((EXPIRED,) if model.state == "expired" else (EXPIRED, INVALID))

    @rule(model=executions, wrong=st.sampled_from(["call_099", "nine"]))
    def answer_what_was_not_asked(self, model: Model, wrong: str) -> None:
        if model.state == "paused":
            got = self._do(go_on(self.client, model.body["continuation_token"], result(wrong, 1)))
            assert got["error"].startswith(("no open call 'call_099'", "call_id 'nine' is none of ours"))
            if wrong == "call_099" and not model.is_held:
                model.is_held = model.is_past_the_last = True

    @rule(model=executions)
    def cancel(self, model: Model) -> None:
        if model.state == "paused":
            body = {"continuation_token": model.body["continuation_token"]}
            got = self._do(self.client.post("/exec/programmatic/cancel", json=body))
            assert got == {"status": "cancellation_requested"}
            model.state = "cancelled"

    @rule(seconds=st.sampled_from([5, 30]))
    def wait(self, seconds: int) -> None:
        self.loop.ahead_seconds += seconds
        for model in self.models:
            if model.deadline < self._now():
                model.state, model.is_held = "expired", False
        # One turn of the loop for the deadlines themselves, the rest for the guests that they end.
        self.loop.run_until_complete(self._until_paused_are_counted())

    @rule()
    def restart(self) -> None:
        self.loop.run_until_complete(self._stack.aclose())
        for model in self.models:
            model.is_held = False
        self.loop.run_until_complete(self._open())

    @invariant()
    def the_server_counts_as_the_model_does(self) -> None:
        paused = sum(model.state == "paused" and model.is_held for model in self.models)
        assert self._metric("paused") == paused

    # the machine's own

    def _now(self) -> float:
        return time.time() + self.loop.ahead_seconds

    def _do(self, request: Any) -> dict[str, Any]:
        answer: httpx.Response = self.loop.run_until_complete(request)
        assert answer.status_code in (200, 202, 400), answer.text
        return answer.json()

    async def _open(self) -> None:
        self._stack = AsyncExitStack()
        ledger = open_ledger(str(self.folder / "ledger.sqlite"))
        self._stack.push_async_callback(ledger.close)
        server = inside(
            Settings(keys=KEYS, token_key=b"k" * 32, starts_per_minute=100_000, refusals_per_second=1e9),
            self.folder / "files",
            ledger=ledger,
            engine=Lasting(self.engine),
            clock=self._now,
        )
        self.client = await self._stack.enter_async_context(server)

    def _metric(self, name: str) -> int:
        return self.loop.run_until_complete(metric(self.client, name))

    async def _until_paused_are_counted(self) -> None:
        paused = sum(model.state == "paused" and model.is_held for model in self.models)
        while await metric(self.client, "paused") != paused:
            await asyncio.sleep(0)

    async def _nothing_is_left(self) -> None:
        """At the last deadline the only guests are those that wait for programs."""
        self.loop.ahead_seconds += 1000
        while await metric(self.client, "paused") or await metric(self.client, "guests") > 2:
            await asyncio.sleep(0.01)


@pytest.mark.long
def test_any_order_of_requests_keeps_to_the_model() -> None:
    ServerMachine.loop, ServerMachine.engine = Loop(), ProcessEngine()
    ServerMachine.loop.run_until_complete(ServerMachine.engine.__aenter__())
    try:
        run_state_machine_as_test(
            ServerMachine,
            settings=settings(
                max_examples=25,
                stateful_step_count=30,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
                # Not made smaller: that would take minutes, and the steps of the first failure are shown anyway.
                phases=[Phase.generate],
            ),
        )
    finally:
        ServerMachine.loop.run_until_complete(ServerMachine.engine.__aexit__())
        ServerMachine.loop.close()
