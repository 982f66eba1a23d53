"""What makes the process engine fast, fenced off: take any of it away and every program still ends as it did.

* `forewarning`: a waiting guest compiles a program while the host checks it.
* `placement`: a waiting guest wakes up on another core than the host's.
* `lookahead`: the host stays awake for a frame that is about to come.

The modules that talk to guests know only these objects, never how or when they pay. `bench/tricks.py` measures
each of them with and without it, in one run.
"""
