"""`make test NAME=hold`: every attack, or those named; prints one line for each. Exit 1: one did not hold.

`--controls` switches off what holds each attack, in the server that it meets, and expects that it does not hold.
`--soak [SECONDS]`, or `--soak --minutes 20`, is 200 hostile connections of one tenant beside an honest client; it prints
the server's memory every minute, and says whether that ended flat.
"""

import argparse
import sys

from tests.hold.escapes import escape_names, run_escapes
from tests.hold.measure import Held, attack_names, attack_of, measure
from tests.hold.soak import soak
from tests.hold.switched_off import CONTROLS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hold", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="ATTACK", help="all of them unless given")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack")
    parser.add_argument("--controls", action="store_true", help="with what holds them switched off")
    parser.add_argument("--soak", type=float, nargs="?", const=300.0, metavar="SECONDS", help="all mixed, for long")
    parser.add_argument("--minutes", type=float, help="of the soak")
    said = parser.parse_args(arguments)
    if said.soak is not None or said.minutes is not None:
        return soak(said.soak if said.minutes is None else 60 * said.minutes)
    names = [name for name in said.names or attack_names() if name not in escape_names()]
    print(f"{'item':>4} {'attack':26} {'alone':>8} {'under':>8} {'grown':>9} {'SIGTERM':>8}")
    held = [
        is_held(measure(name, seconds=said.seconds, programs=15 if said.controls else 30, is_control=said.controls))
        for name in names
    ]
    escapes = [name for name in said.names or escape_names() if name in escape_names()]
    held += run_escapes(escapes, is_control=said.controls)
    if said.controls:
        print(f"{held.count(False)} of {len(held)} do not hold with their mend switched off, as they must")
        return int(any(held))
    print(f"{held.count(True)} of {len(held)} held")
    return int(not all(held))


def is_held(held: Held) -> bool:
    """Whether every promise held; prints what was measured."""
    broken = [*held.broken, *held.late]
    figures = f"{held.alone.p95 * 1000:5.0f} ms {held.under.p95 * 1000:5.0f} ms {held.grown_bytes / 1e6:6.0f} MB"
    verdict = "; ".join(broken) or "held"
    without = f" (without: {CONTROLS[held.name].__doc__})" if held.is_control else ""
    item = attack_of(held.name).ITEM
    print(f"{item:4} {held.name:26} {figures} {held.seconds_to_end:6.1f} s  {verdict}{without}", flush=True)
    return not broken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
