"""Rollouts: many environments, each with turns of its own, in which a policy writes programs."""
