"""Guests that run texts and tell how each ended, for tests of the jail."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from toolfold.engines.process.doctor import PROBE, run_in_probe
from toolfold.engines.process.guest import Guest
from toolfold.engines.process.zygote import Zygote
from toolfold.engines.process.zygote_launch import NAMESPACE, LaunchPlan, Tier
from toolfold.models import Limits


@asynccontextmanager
async def jail(tier: Tier = NAMESPACE, limits: Limits | None = None) -> AsyncIterator[Zygote]:
    zygote = await Zygote.start(LaunchPlan(tier=tier, limits=limits or Limits(), loop_module=PROBE))
    try:
        yield zygote
    finally:
        await zygote.close()


@asynccontextmanager
async def guest(tier: Tier = NAMESPACE, limits: Limits | None = None) -> AsyncIterator[Guest]:
    async with jail(tier, limits) as zygote:
        one = zygote.spawn()
        try:
            await one.ready
            yield one
        finally:
            one.close()


async def answer(one: Guest, text: str, **names: Any) -> Any:
    """The text's `result`, or its error as text."""
    answered = await run_in_probe(one, text, names)
    return answered["error"] if "error" in answered else answered["result"]
