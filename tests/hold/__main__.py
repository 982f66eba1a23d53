"""`python -m tests.hold [NAME...]`: every attack, or those named; prints one line for each. Exit 1: one did not hold.

`--control` switches off what holds an attack, where the config can, and expects it to reach its aim.
`--soak [SECONDS]` is 200 hostile connections of one tenant beside an honest client.
"""

import argparse
import sys

from tests.hold.measure import Held, attack_names, attack_of, measure
from tests.hold.soak import soak


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make test-hold", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks; all of them unless given")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack")
    parser.add_argument("--control", action="store_true", help="with what holds them switched off")
    parser.add_argument("--soak", type=float, nargs="?", const=300.0, metavar="SECONDS", help="all mixed, for long")
    said = parser.parse_args(arguments)
    if said.soak is not None:
        return soak(said.soak)
    names = said.names or attack_names()
    if said.control:
        names = [name for name in names if attack_of(name).CONTROL is not None]
    print(f"{'attack':24} {'alone':>8} {'under':>8} {'grown':>9} {'SIGTERM':>8}")
    reached = [name for name in names if not is_held(measure(name, seconds=said.seconds, is_control=said.control))]
    if said.control:
        print(f"{len(reached)} of {len(names)} reach their aim with the mend switched off")
        return int(set(reached) != set(names))
    print(f"{len(names) - len(reached)} of {len(names)} held")
    return int(bool(reached))


def is_held(held: Held) -> bool:
    """Whether every promise held; prints what was measured."""
    broken = [*held.broken, *([] if held.is_prompt else ["the honest client waits too long"])]
    figures = f"{held.alone.p95 * 1000:5.0f} ms {held.under.p95 * 1000:5.0f} ms {held.grown_bytes / 1e6:6.0f} MB"
    verdict = "; ".join(broken) or "held"
    print(f"{held.name:24} {figures} {held.seconds_to_end:6.1f} s  {verdict}", flush=True)
    return not broken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
