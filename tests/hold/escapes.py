"""The attacks of `tests/escapes` that aim at the host or at the next program, in the same table: held in both tiers."""

import asyncio
from typing import Final

from tests.escapes_support.attack import Attack, load_attacks
from tests.escapes_support.corpus import Corpus
from toolfold.engines.process.zygote_launch import LANDLOCK, NAMESPACE
from toolfold.errors import EngineUnavailable

ITEMS: Final = {
    3: ("protocol_arguments_all_kept", "protocol_empty_frames", "protocol_empty_output", "protocol_many_lists"),
    9: ("files_lock", "files_lock_of_description", "look_flags_of_last_program", "look_lock_of_last_program"),
    10: ("files_site_packages_read", "files_site_packages_write"),
    12: ("kernel_out_of_band", "kernel_set_dumpable", "process_dumpable", "resources_threads"),
}
"""By what they attack."""


def escape_names() -> list[str]:
    return [name for names in ITEMS.values() for name in names]


def run_escapes(names: list[str], *, is_control: bool) -> list[bool]:
    """Whether each was held; prints a line for it."""
    return asyncio.run(_run(names, is_control=is_control)) if names else []


async def _run(names: list[str], *, is_control: bool) -> list[bool]:
    attacks = {attack.name: attack for attack in load_attacks()}
    held: list[bool] = []
    async with Corpus() as corpus:
        for item, all_names in ITEMS.items():
            for name in (name for name in all_names if name in names):
                verdict = await (_control(corpus, attacks[name]) if is_control else _attack(corpus, attacks[name]))
                held.append(verdict.startswith("held"))
                print(f"{item:4} {name:26} {'':37} {verdict}", flush=True)
    return held


async def _attack(corpus: Corpus, attack: Attack) -> str:
    """In both tiers; one that this machine does not have is said to be unproven."""
    said = []
    for tier in (NAMESPACE, LANDLOCK):
        try:
            seen = await corpus.attack(attack, tier)
        except EngineUnavailable as error:
            said.append(f"not proven in tier {tier.name}: {error}")
            continue
        if seen.reaches(attack) or seen.error or seen.is_alive:
            return f"reached its aim in tier {tier.name} {seen.error}"
    return "; ".join(["held", *said])


async def _control(corpus: Corpus, attack: Attack) -> str:
    off = f"(without: {', '.join(sorted(attack.stopped_by))})"
    try:
        seen = await corpus.control(attack)
        if not seen.reaches(attack):
            seen = await corpus.control(attack.slowly)
    except EngineUnavailable as error:
        return f"not proven: {error} {off}"
    if seen.reaches(attack):
        return f"reached its aim {off}"
    reason = corpus.why_unproven(attack)
    return f"not proven: {reason} {off}" if reason else f"held {off}"
