"""Guesses another program's random numbers: forks of one process draw the same."""

STOPPED_BY = {"fresh seed"}
BEFORE = "SAME"
WITNESS = "printed and printed == printed_before"

import random

print(random.random(), random.getrandbits(64))
