"""The environment that most tasks need: a question, and a judge of programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolfold.doors.frameworks.render import shown_outcome
from toolfold.doors.rollouts.episodes import Step
from toolfold.models import File, Outcome


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
        text = shown_outcome(outcome).text_alone
        return Step(observation=text, reward=reward or 0.0, is_done=reward is not None)
