"""The product's own host side under an attack: the engine, with tools that answer at once."""

from __future__ import annotations

import asyncio
import os
import time

from tests.escapes_support.seen import BLOB, Seen, descendants, open_descriptors
from toolfold.engines.base import Called, Died, Ended, Engine, Order, Printed, ReplayTape, Waiting
from toolfold.models import Problem, Reply

_STUCK_AFTER_SECONDS = 60.0
_GONE_WITHIN_SECONDS = 30.0


async def run_on_engine(engine: Engine, order: Order) -> Seen:
    """The program, to its end or to the wall clock."""
    seen = Seen()
    before, processes = open_descriptors(), descendants(os.getpid())
    try:
        async with asyncio.timeout(order.limits.wall_seconds + _STUCK_AFTER_SECONDS):
            await _follow(engine, order, seen, before)
    except TimeoutError:
        seen.error = "stuck"
    except Exception as error:  # noqa: BLE001  # an attack that breaks the host has reached something
        seen.error = f"{type(error).__name__}: {error}"
    seen.is_alive = not await _are_gone(processes)
    return seen


async def _follow(engine: Engine, order: Order, seen: Seen, before: int) -> None:
    loop = asyncio.get_running_loop()
    async with engine.open(order) as run:
        inside = open_descriptors()
        timer = loop.call_later(
            order.limits.wall_seconds, run.stop, "timeout", Problem(kind="wall_clock", message="too long")
        )
        async for event in run:
            seen.descriptors = max(seen.descriptors, open_descriptors() - inside)
            match event:
                case Printed():
                    seen.printed += event.text
                    seen.cut_bytes = (seen.cut_bytes[0] + event.cut_bytes, 0)
                case Called():
                    for call in event.calls:
                        seen.served.append((call.id, call.tool))
                        seen.lines.append(call.line)
                        seen.largest_argument_bytes = max(seen.largest_argument_bytes, len(str(call.arguments)))
                        seen.served_after_end = bool(seen.status)
                        value = BLOB if call.tool == "blob" else None
                        seen.answered_bytes += len(value or "")
                        run.answer(Reply(call_id=call.id, value=value))
                case Ended():
                    seen.status, seen.value, seen.notes = event.status, event.value, event.notes
                    if event.problem:
                        seen.problem, seen.problem_text = event.problem.kind, event.problem.message
                    seen.files = {file.name: file.data for file in event.files}
                case Died():
                    seen.error = f"Died: {event.detail}"
                case ReplayTape():
                    seen.taped += 1 + len(event.wakes) + len(event.clocks)
                case Waiting():
                    pass
        timer.cancel()


async def _are_gone(before: set[int]) -> bool:
    deadline = time.monotonic() + _GONE_WITHIN_SECONDS
    while descendants(os.getpid()) - before:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.005)
    return True
