"""What travels between a policy, an environment and whoever trains: plain values, and the two contracts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from toolfold.models import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What an environment makes of a program's outcome."""

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
    """One program and what came of it."""

    program: str
    outcome: Outcome
    observation: str
    """What the environment said then."""
    reward: float
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a policy decides by."""

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
        """Of all turns."""
        return sum(turn.reward for turn in self.turns)

    @property
    def is_done(self) -> bool:
        """The environment has ended it; otherwise its turns were used up."""
        return bool(self.turns) and self.turns[-1].is_done

    # Any: values of programs.
    def transcript(self) -> list[dict[str, Any]]:
        """What was said and done, without ids and times: the same for the same seed."""
        said: list[dict[str, Any]] = [{"observation": self.first_observation}]
        for turn in self.turns:
            outcome = turn.outcome
            said[-1]["program"] = turn.program
            said.append(
                {
                    "status": outcome.status,
                    "stdout": outcome.stdout,
                    "value": outcome.value,
                    "observation": turn.observation,
                    "reward": turn.reward,
                }
            )
        return said
