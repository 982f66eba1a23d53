"""Rollouts of a policy over many environments, whose programs run as one batch of the runtime.

Rules:
1. A program is in flight only where the batch has room; policies and environments are not held up by it.
2. What an environment sees depends on its seed and its own programs, never on the others or on the time.
3. Whoever stops reading ends everything, and no session is left.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from toolfold.errors import UsageError
from toolfold.execution.batch import Item
from toolfold.interfaces.frameworks.program_tool import render_outcome
from toolfold.models import File, Limits, Outcome
from toolfold.runtime import Runtime

__all__ = ["CLOCK", "Environment", "Episode", "Policy", "Situation", "Step", "Task", "Turn", "roll_out"]

# ----------------------------------------------------------------------------------------------------
# What travels between a policy, an environment and whoever trains: plain values, and the two contracts.


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Result of a turn, from a program's outcome."""

    observation: str
    reward: float = 0.0
    is_done: bool = False


class Environment(Protocol):
    """One task. It runs nothing itself: it is told how programs ended.

    May also have `files`, which the first program finds in its data folder.
    """

    def reset(self, seed: int) -> str:
        """Begin anew; the first observation, which depends on nothing but the seed."""

    def step(self, outcome: Outcome) -> Step:
        """A program of the policy has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Turn of an episode: a program and its result."""

    program: str
    outcome: Outcome
    observation: str
    """What the environment said then."""
    reward: float
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Situation in which a policy decides."""

    environment: int
    """Its place among the environments, counted from 0."""
    seed: int
    """Of this turn: for a policy that draws."""
    observation: str
    """The latest."""
    turns: tuple[Turn, ...] = ()
    """Those before, the oldest first."""


Policy: TypeAlias = Callable[[Situation], Awaitable[str]]
"""Gives the next program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """An environment from its reset to its last turn."""

    environment: int
    seed: int
    """That it was reset with."""
    first_observation: str
    turns: tuple[Turn, ...]

    @property
    def reward(self) -> float:
        """Sum of the rewards of all turns."""
        return sum(turn.reward for turn in self.turns)

    @property
    def is_done(self) -> bool:
        """The environment has ended it; otherwise its turns were used up."""
        return bool(self.turns) and self.turns[-1].is_done

    # Any: values of programs.
    def transcript(self) -> list[dict[str, Any]]:
        """What was said and done, without ids and times: the same for the same seed."""
        entries: list[dict[str, Any]] = [{"observation": self.first_observation}]
        for turn in self.turns:
            outcome = turn.outcome
            entries[-1]["program"] = turn.program
            entries.append(
                {"status": outcome.status, "stdout": outcome.stdout, "value": outcome.value,
                 "observation": turn.observation, "reward": turn.reward}
            )  # fmt: skip
        return entries


CLOCK: Final = 1_767_225_600.0
"""The first moment of 2026: what programs take for the present."""
_TURN_SECONDS: Final = 60.0
"""By the programs' clocks, from one turn to the next."""


async def roll_out(
    runtime: Runtime, environments: Sequence[Environment], policy: Policy, *, turns: int, seed: int,
    in_flight: int | None = None, keep_names: bool = False, limits: Limits | None = None,
    clock: float | None = CLOCK,
) -> AsyncGenerator[Episode, None]:  # fmt: skip
    """Episodes as they end: each environment has up to `turns` programs, which `policy` writes.

    Each environment has a session of its own, so that files, and with `keep_names` also names, live on from turn to
    turn. `in_flight` programs run at a time, as in `Runtime.map`, and failures of the engine are treated as there.
    With the same seed the transcripts are the same; `clock=None` lets programs read the real time.

    Raises:
        UsageError: an argument is wrong; nothing has run then.
    """
    _check(runtime, environments, turns, keep_names=keep_names)
    batch = _Batch(runtime, in_flight)
    usual = Item(text="", limits=limits, keep_names=keep_names, clock=clock)
    name = secrets.token_hex(6)
    sessions = [f"rollout-{name}-{number}" for number in range(len(environments))]
    episodes = [
        asyncio.create_task(_EpisodeRun(batch, policy, number, environment, seed, turns).run(usual, session))
        for number, (environment, session) in enumerate(zip(environments, sessions, strict=True))
    ]
    try:
        for ended in asyncio.as_completed(episodes):
            yield await ended
    finally:
        for task in episodes:
            task.cancel()
        await asyncio.gather(*episodes, return_exceptions=True)
        await batch.close()
        # Last: a program that still ran would leave its files in a session that is closed.
        for session in sessions:
            runtime.sessions.close(session)


def _check(runtime: Runtime, environments: Sequence[Environment], turns: int, *, keep_names: bool) -> None:
    if turns < 1:
        raise UsageError(f"turns is {turns!r}; an episode has at least 1")
    if not environments:
        raise UsageError("there is no environment to roll out; give at least one")
    for number, environment in enumerate(environments):
        if not callable(getattr(environment, "reset", None)) or not callable(getattr(environment, "step", None)):
            kind = type(environment).__name__
            raise UsageError(f"environment {number} is a {kind!r}; it needs reset(seed) and step(outcome)")
    most = runtime.sessions.limits.max_guests
    if keep_names and len(environments) > most:
        raise UsageError(
            f"{len(environments)} environments keep names, and the runtime has room for {most}; "
            "raise SessionLimits.max_guests, or roll out fewer at a time"
        )


class _Batch:
    """Programs of all environments, as one `Runtime.map` that goes on as long as they do."""

    def __init__(self, runtime: Runtime, in_flight: int | None) -> None:
        self.sessions = runtime.sessions
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        self._waiting: set[asyncio.Future[Outcome]] = set()
        self._running = asyncio.create_task(self._run(runtime, in_flight))
        self._running.add_done_callback(self._fail)

    async def outcome(self, item: Item) -> Outcome:
        if self._running.done():
            self._running.result()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        self._items.put_nowait(msgspec.structs.replace(item, tag=future))
        try:
            return await future
        finally:
            self._waiting.discard(future)

    async def close(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self, runtime: Runtime, in_flight: int | None) -> None:
        async with aclosing(runtime.map(self._queued_items(), in_flight=in_flight)) as outcomes:
            async for result in outcomes:
                if not result.tag.done():
                    result.tag.set_result(result.outcome)

    async def _queued_items(self) -> AsyncIterator[Item]:
        while True:
            yield await self._items.get()

    def _fail(self, running: asyncio.Task[None]) -> None:
        """Whoever waits for a program is told that there will be none."""
        error = None if running.cancelled() else running.exception()
        for future in self._waiting:
            if error is not None and not future.done():
                future.set_exception(error)


@dataclass(frozen=True, slots=True)
class _EpisodeRun:
    batch: _Batch
    policy: Policy
    number: int
    environment: Environment
    seed: int
    turns: int

    async def run(self, usual: Item, session: str) -> Episode:
        seed = self._derive_seed("reset")
        first = observation = self.environment.reset(seed)
        turns: tuple[Turn, ...] = ()
        while len(turns) < self.turns and not (turns and turns[-1].is_done):
            turn = await self._turn(usual, session, observation, turns)
            turns, observation = (*turns, turn), turn.observation
        self.batch.sessions.close(session)
        return Episode(environment=self.number, seed=seed, first_observation=first, turns=turns)

    async def _turn(self, usual: Item, session: str, observation: str, turns: tuple[Turn, ...]) -> Turn:
        number = len(turns)
        turn_seed = self._derive_seed(f"policy {number}")
        situation = Situation(environment=self.number, seed=turn_seed, observation=observation, turns=turns)
        # Any: a policy is the trainer's own.
        program: Any = await self.policy(situation)
        if not isinstance(program, str):
            raise UsageError(f"the policy gave a {type(program).__name__!r} in turn {number}; it must give a program")
        clock = None if usual.clock is None else usual.clock + number * _TURN_SECONDS
        files = () if turns else tuple(getattr(self.environment, "files", ()))
        item = msgspec.structs.replace(
            usual, text=program, session=session, files=files, seed=self._derive_seed(f"program {number}"), clock=clock
        )
        outcome = await self.batch.outcome(item)
        step = self.environment.step(outcome)
        return Turn(
            program=program, outcome=outcome, observation=step.observation, reward=float(step.reward),
            is_done=bool(step.is_done),
        )  # fmt: skip

    def _derive_seed(self, purpose: str) -> int:
        text = f"{self.seed} {self.number} {purpose}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


# ----------------------------------------------------------------------------------------------------
# The environment that most tasks need: a question, and a judge of programs.


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Shows a program's outcome as a model reads it, and is done when the judge gives a reward."""

    prompt: str
    judge: Callable[[Outcome], float | None]
    """The reward of an outcome that ends the episode; `None` to go on."""
    files: Sequence[File] = ()

    def reset(self, seed: int) -> str:
        """The prompt, whatever the seed."""
        return self.prompt

    def step(self, outcome: Outcome) -> Step:
        """What the program said, and the judge's reward."""
        reward = self.judge(outcome)
        text = render_outcome(outcome).text_alone
        return Step(observation=text, reward=reward or 0.0, is_done=reward is not None)
