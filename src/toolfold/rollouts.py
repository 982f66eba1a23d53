"""The public names of rollouts; see `toolfold.doors.rollouts`."""

from toolfold.doors.rollouts.episodes import Environment, Episode, Policy, Situation, Step, Turn
from toolfold.doors.rollouts.rolling import CLOCK, roll_out
from toolfold.doors.rollouts.tasks import Task

__all__ = ["CLOCK", "Environment", "Episode", "Policy", "Situation", "Step", "Task", "Turn", "roll_out"]
