"""Every way of doing a task, done for real: the calls reach the tools, and must do the same there."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import toolfold
from bench.savings.dependence import Needs, needs, waves
from bench.savings.programs import programs
from bench.savings.task import GoldCall, Task, Turn, World
from bench.savings.tokens import call_text, reply_text
from toolfold.execution.outcome import ENTRY_NAME

SEQUENTIAL = "direct, one by one"
PARALLEL = "direct, parallel"
ONE_REQUEST = "direct, one request a turn"
PROGRAM = "program, prints every reply"
PROGRAM_LAST = "program, prints the last reply"
PROGRAM_UNTYPED = "program, no return types"
"""As `PROGRAM`, but the model is not told what tools return; direct calls are never told."""
MIXED = "program from 3 calls on"
WAYS = (SEQUENTIAL, PARALLEL, ONE_REQUEST, PROGRAM, PROGRAM_LAST, PROGRAM_UNTYPED, MIXED)
FEWEST_CALLS = 3
"""From here on the MCP interface's description advises a program."""

Step = list[tuple[str, str]]
"""One request: each call in it as text, with its reply."""


@dataclass(slots=True)
class Replayed:
    """One way of doing one task: for each turn its requests."""

    turns: list[list[Step]] = field(default_factory=list)
    calls: int = 0
    context_saved: int = 0
    """Tokens, as the outcomes say it."""


class Unfit(Exception):
    """A call of the task is none that its tool takes, so no way can do it."""


class Differs(Exception):
    """A way did something else than the calls one by one."""


async def replay(task: Task, runtime: toolfold.Runtime) -> dict[str, Replayed]:
    """By way.

    Raises:
        Unfit: The task itself is wrong.
        Differs: The tools were not called alike, or were left in another state.
    """
    replayed = {way: Replayed() for way in WAYS}
    world = _enter(task, runtime)
    for turn in task.turns:
        replayed[SEQUENTIAL].turns.append([await _request([call], runtime) for call in turn.calls])
    reference = world
    if len(reference.log) != sum(len(turn.calls) for turn in task.turns):
        raise Unfit(f"{task.name}: a call does not fit the schema of its tool")
    found = _found(task, reference.log)
    for way in WAYS[1:]:
        world = _enter(task, runtime)
        for turn, turn_needs in zip(task.turns, found, strict=True):
            replayed[way].turns.append(await _turn(way, turn, turn_needs, runtime, replayed[way]))
        _compare(way, task, world, reference)
    for one in replayed.values():
        one.calls = len(reference.log)
    if task.finds:
        for way in (PROGRAM, PROGRAM_LAST, PROGRAM_UNTYPED):
            replayed[way].turns[0].insert(0, _search(task.finds, runtime))
    return replayed


def _enter(task: Task, runtime: toolfold.Runtime) -> World:
    world = task.world()
    runtime.replace_tools(world.tools())
    return world


def _found(task: Task, log: Sequence[tuple[str, dict[str, Any], Any]]) -> list[list[Needs]]:
    known, replies, found = "", [result for _, _, result in log], []
    for turn in task.turns:
        known += turn.said + "\n"
        own, replies = replies[: len(turn.calls)], replies[len(turn.calls) :]
        found.append(needs(turn.calls, own, known))
        known += "\n".join([*map(reply_text, own), *(call_text(one.name, one.arguments) for one in turn.calls)])
    return found


async def _turn(way: str, turn: Turn, found: list[Needs], runtime: toolfold.Runtime, replayed: Replayed) -> list[Step]:
    if not turn.calls:
        return []
    if way == ONE_REQUEST:
        return [await _request(turn.calls, runtime)]
    if way == PARALLEL or (way == MIXED and len(turn.calls) < FEWEST_CALLS):
        return [await _request([turn.calls[index] for index in wave], runtime) for wave in waves(found)]
    texts = turn.programs or programs(turn.calls, found, "last" if way == PROGRAM_LAST else "all")
    return [await _program(text, runtime, replayed) for text in texts]


async def _request(calls: Sequence[GoldCall], runtime: toolfold.Runtime) -> Step:
    # At once: the router starts them in order, and a tool that does not wait has ended before the next begins.
    replies = await asyncio.gather(*(runtime.call(call.name, call.arguments) for call in calls))
    texts = (reply_text(reply.value if reply.error is None else reply.error) for reply in replies)
    return [(call_text(call.name, call.arguments), text) for call, text in zip(calls, texts, strict=True)]


async def _program(text: str, runtime: toolfold.Runtime, replayed: Replayed) -> Step:
    outcome = await runtime.run(text)
    if outcome.status != "finished":
        raise Differs(f"a program ended as {outcome.status}: {outcome.problem}\n{text}")
    replayed.context_saved += outcome.context_saved.tokens
    shown = outcome.stdout + (reply_text(outcome.value) if outcome.value is not None else "")
    return [(call_text(ENTRY_NAME, {"code": text}), shown)]


def _search(query: str, runtime: toolfold.Runtime) -> Step:
    found = "\n\n".join(str(hit["signature"]).rstrip() for hit in runtime.catalog.search(query))
    return [(call_text("search_tools", {"query": query}), found)]


def _compare(way: str, task: Task, world: World, reference: World) -> None:
    logs = [one.log if task.has_order else sorted(one.log, key=repr) for one in (reference, world)]
    if logs[0] != logs[1]:
        at = next((i for i, pair in enumerate(zip(*logs, strict=False)) if pair[0] != pair[1]), min(map(len, logs)))
        raise Differs(f"{task.name}, {way}: call {at + 1} differs from the calls one by one")
    if world.state() != reference.state():
        raise Differs(f"{task.name}, {way}: the tools are left in another state")
