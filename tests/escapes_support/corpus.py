"""Runs attacks: held in a tier, or with what stops them off. One engine for each set of layers."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from tests.escapes_support.attack import HOST_SIDE, LINEAGE, Attack
from tests.escapes_support.bait import Bait
from tests.escapes_support.naive_host import NaiveHosts
from tests.escapes_support.real_host import run_on_engine
from tests.escapes_support.seen import Seen, order_for
from tests.escapes_support.shared_process import run_in_shared_process
from toolfold.engines.base import Order
from toolfold.engines.process import ProcessEngine
from toolfold.engines.process.zygote_launch import Tier
from toolfold.models import InstalledSet, Limits


class Corpus:
    """An async context manager; all engines end with it.

    Args:
        library_sets: The attacks run in guests that have the first of them loaded.
    """

    def __init__(self, library_sets: Sequence[InstalledSet] = ()) -> None:
        self._sets = library_sets
        self.bait = Bait()
        self._engines: dict[Tier, ProcessEngine] = {}
        self._naive_hosts = NaiveHosts()

    async def __aenter__(self) -> Corpus:
        self.bait.__enter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for engine in self._engines.values():
            await engine.__aexit__()
        await self._naive_hosts.close()
        self.bait.__exit__()

    async def attack(self, attack: Attack, tier: Tier) -> Seen:
        """In the real product, with that tier."""
        self.bait.refresh()
        engine = await self._engine(tier)
        before = Seen()
        if attack.before:
            first = order_for(attack, self.bait, is_control=False, text=attack.before)
            before = await run_on_engine(engine, self._equipped(first))
        order = order_for(attack, self.bait, is_control=tier == attack.weakened)
        seen = await run_on_engine(engine, self._equipped(order))
        seen.bait, seen.printed_before = self.bait, before.printed
        return seen

    async def control(self, attack: Attack) -> Seen:
        """With everything off that stops it, and nothing else."""
        if attack.stopped_by & LINEAGE:
            self.bait.refresh()
            seen = self._share_a_process(attack)
        elif attack.stopped_by & HOST_SIDE:
            self.bait.refresh()
            seen = await self._naive_hosts.run(attack.weakened, order_for(attack, self.bait, is_control=True))
        else:
            return await self.attack(attack, attack.weakened)
        seen.bait = self.bait
        return seen

    def why_unproven(self, attack: Attack) -> str:
        """The reason why a control that did not reach its aim is the machine's doing; empty if there is none."""
        if attack.needs_root and os.geteuid() != 0:
            return "the control needs root"
        if attack.machine and attack.machine != platform.machine():
            return f"only {attack.machine} has this"
        return attack.may_lack

    async def _engine(self, tier: Tier) -> ProcessEngine:
        if tier not in self._engines:
            engine = ProcessEngine(
                isolation=tier, limits=Limits(), warm=0, accept_no_isolation=True, library_sets=self._sets
            )
            await engine.__aenter__()
            # Now: a zygote that starts in the middle of an attack would be taken for a process that the attack left.
            for one in self._sets:
                await engine.preload(one.name)
            self._engines[tier] = engine
        return self._engines[tier]

    def _equipped(self, order: Order) -> Order:
        if not self._sets:
            return order
        return structs.replace(order, program=replace(order.program, library_set=self._sets[0].name))

    def _share_a_process(self, attack: Attack) -> Seen:
        prelude = self.bait.prelude(is_control=True)
        texts = [prelude + text for text in (attack.before, attack.text) if text]
        fork = bool(attack.stopped_by & {"fresh seed", "own descriptors"})
        printed = run_in_shared_process(texts, fork=fork, folder=self.bait.folder)
        return Seen(printed=printed[-1], printed_before=printed[0] if attack.before else "", status="finished")
