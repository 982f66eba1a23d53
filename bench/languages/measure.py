"""Gives every program to every peer, one peer after another."""

from collections.abc import Callable, Iterable, Sequence

from bench.languages.corpus import Program
from bench.peers.client import Worker

Reasons = dict[str, str]
"""By program: why it did not run, or nothing."""


async def measure(peers: Iterable[str], corpus: Sequence[Program], say: Callable[[str], None]) -> dict[str, Reasons]:
    found: dict[str, Reasons] = {}
    for peer in peers:
        async with Worker(peer, "bench.languages.tools", say) as worker:
            say(f"{peer}: {len(corpus)} programs")
            found[peer] = {
                program.name: program.judge(await worker.ask(do="run", text=program.text)) for program in corpus
            }
    return found
