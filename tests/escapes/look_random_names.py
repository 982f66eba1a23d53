"""Guesses another program's temporary file names and ids."""

STOPPED_BY = {"fresh seed"}
BEFORE = "SAME"
WITNESS = "printed and printed == printed_before"

import random, tempfile

print(next(tempfile._get_candidate_names()), random.sample(range(10**9), 3))
