"""Gives every program to every peer, a few peers at a time."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bench.languages.corpus import Program
from bench.peers.client import Worker

AT_A_TIME = 3
"""Most of them wait most of the time, for programs that they cannot end."""

Reasons = dict[str, str]
"""By program: why it did not run, or nothing."""


@dataclass(slots=True)
class Found:
    """What each peer did, and which could not be installed."""

    peers: dict[str, Reasons] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


async def measure(peers: Iterable[str], corpus: Sequence[Program], say: Callable[[str], None]) -> Found:
    """Every program on every peer."""
    turns = asyncio.Semaphore(AT_A_TIME)
    names = list(peers)
    answers = await asyncio.gather(*(_one(peer, corpus, say, turns) for peer in names))
    found = Found()
    for peer, answer in zip(names, answers, strict=True):
        if isinstance(answer, str):
            found.missing[peer] = answer
        else:
            found.peers[peer] = answer
    return found


async def _one(
    peer: str, corpus: Sequence[Program], say: Callable[[str], None], turns: asyncio.Semaphore
) -> Reasons | str:
    async with turns, Worker(peer, "bench.languages.tools", say) as worker:
        if worker.error:
            return worker.error
        say(f"{peer}: {len(corpus)} programs")
        return {program.name: program.judge(await worker.ask(do="run", text=program.text)) for program in corpus}
