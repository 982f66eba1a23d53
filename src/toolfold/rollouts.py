"""The public names of rollouts; see `toolfold.interfaces.rollouts`."""

from toolfold.interfaces.rollouts import CLOCK, Environment, Episode, Policy, Situation, Step, Task, Turn, roll_out

__all__ = ["CLOCK", "Environment", "Episode", "Policy", "Situation", "Step", "Task", "Turn", "roll_out"]
