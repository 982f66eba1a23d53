"""The same programs on other people's code modes: `python -m bench.peers`.

Each peer lives in an environment and a process of its own; only `worker` and `adapters` run there, so
those import the standard library, the peer, and what in `bench` needs neither toolfold nor `rich`.
"""
