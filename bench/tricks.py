"""What each trick of the process engine gains: `make bench ARGS=--tricks`.

Two trees run at the same time and take turns: this one, and a copy of it with one trick taken out, by a few lines at
the end of the module that has it. A trick that gains less than 5 % on its own row does not pay for its keep.
"""

import re
import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from bench.pairs import ROOT, ROUNDS, Side, interval
from toolfold.engines import guest_frames
from toolfold.engines.process import engine as process_engine
from toolfold.engines.process import optimizations, run
from toolfold.engines.process import zygote as process_zygote
from toolfold_guest import main as toolfold_guest_main
from toolfold_guest import stdlib_names, zygote
from toolfold_guest.calls import channel, message_transport
from toolfold_guest.program import compiler
from toolfold_guest.shared import wire_format

PAIRS = 4
BLOCKS = 2
WORTH = 1.05
"""What a trick must gain on its own row to stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trick:
    """Something that is there for speed or memory alone."""

    name: str
    case: str
    """The row that it is for."""
    module: ModuleType
    """Where it is."""
    without: str
    """Assignments at the end of that module that take it out; empty for the aliases, which are all over the guest."""
    gains: str
    """Why it is there."""


TRICKS = (
    Trick(
        name="warm pool", case="empty", module=process_zygote, without="Pool._top_up = lambda self: None",
        gains="A program finds a guest that is forked and locked, instead of waiting for one.",
    ),
    Trick(
        name="preparation", case="empty", module=process_engine, without="prepare = lambda *_: None",
        gains="A guest compiles the program while the host checks it.",
    ),
    Trick(
        name="early start", case="empty", module=optimizations,
        without="PreparedGuest.start = lambda self, order: None",
        gains="The program runs while the host makes what it needs to hear of it.",
    ),
    Trick(
        name="placement", case="empty", module=optimizations, without="Placement.stay_away = lambda self: None",
        gains="A guest wakes up on a core where the host is not at work.",
    ),
    Trick(
        name="here", case="burst", module=optimizations,
        without="Placement.here = contextmanager(lambda self: iter([self.set_free()]))",
        gains="Right after another program a guest runs where the host sleeps, not where the other is dying.",
    ),
    Trick(
        name="elsewhere", case="sequential", module=optimizations,
        without="Placement.elsewhere = contextmanager(lambda self: iter([None]))",
        gains="After a while of sleeping, host and guest come apart, so that each can look for the other.",
    ),
    Trick(
        name="look for the first", case="empty", module=optimizations, without="LOOKS_FOR_FIRST = 0",
        gains="The host stays awake for the end of a short program.",
    ),
    Trick(
        name="look for the next", case="sequential", module=optimizations,
        without="LookAhead.answered = lambda self: None",
        gains="The host stays awake for the next call of a program that it has just answered.",
    ),
    Trick(
        name="look for the reply", case="sequential", module=message_transport,
        without="Patience = type('Patience', (Patience,), {'__slots__': (), 'sees': lambda self, looks=0: False})",
        gains="The guest stays awake for the reply of a quick tool.",
    ),
    Trick(
        name="rehearsal", case="empty", module=toolfold_guest_main, without="rehearse = lambda: None",
        gains="A guest has touched the pages that a program needs before there is one.",
    ),
    Trick(
        name="warm caches", case="empty", module=toolfold_guest_main, without="_warm_caches = lambda: None",
        gains="While the host checks a program, its guest runs one that does nothing, and stays awake for the start.",
    ),
    Trick(
        name="compile in parts", case="empty", module=compiler, without="compile_in_parts = lambda text: None",
        gains="A program that needs no rewriting is compiled without a tree.",
    ),
    Trick(
        name="retire later", case="empty", module=process_zygote, without="Pool.give_back = Pool._retire",
        gains="The outcome waits for neither the kill nor the closing of its guest.",
    ),
    Trick(
        name="grant kept", case="empty", module=guest_frames,
        without="_facts = lambda tools, words: encode_facts(tool_facts(spec, words.get(spec.name)) for spec in tools)",
        gains="The tools of the program before are encoded already.",
    ),
    Trick(
        name="replies together", case="gather", module=run,
        without="Replies._flush_soon = lambda self: self._flush()",
        gains="All replies of one turn of the loop wake the guest once.",
    ),
    Trick(
        name="calls in parts", case="gather", module=channel, without="SEND_AT_CALLS = 1 << 30",
        gains="The host serves the first calls of a large gather while the program makes the next.",
    ),
    Trick(
        name="no collection", case="rows", module=message_transport,
        without="gc = __import__('types').SimpleNamespace(disable=lambda: None, enable=lambda: None)",
        gains="The collector does not walk over a large reply while it is being decoded.",
    ),
    Trick(
        name="huge pages", case="empty", module=zygote, without="collapse = lambda: None",
        gains="A fork copies fewer page tables.",
    ),
    Trick(
        name="plain strings", case="paused", module=wire_format, without="PLAIN = 4",
        gains="A program's strings do not touch the shared table of interned ones.",
    ),
    Trick(
        name="aliases", case="paused", module=stdlib_names, without="",
        gains="A look-up in a module of the standard library copies four pages into the guest.",
    ),
)  # fmt: skip


def main(tricks: Sequence[Trick] = TRICKS) -> int:
    """Exit status 1 if a trick is not worth its keep."""
    print(f"{'trick':20} {'case':12} {'with':>9} {'without':>9}   ratio  95 % interval")
    is_good = True
    for trick in tricks:
        with _tree_without(trick) as tree:
            ratios, figures = _measure(tree, trick.case)
        ratio, low, high = interval(ratios)
        medians = [statistics.median(side) for side in figures]
        is_good = is_good and high >= WORTH
        row = f"{trick.name:20} {trick.case:12} {medians[0]:9.3f} {medians[1]:9.3f}   {ratio:.3f}  {low:.3f}-{high:.3f}"
        print(row if high >= WORTH else f"{row}  NOT WORTH IT", flush=True)
    return int(not is_good)


@contextmanager
def _tree_without(trick: Trick) -> Iterator[Path]:
    tree = ROOT / "build" / "trees" / f"without-{trick.name.replace(' ', '-')}"
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("src", "bench"):
        ignored = shutil.ignore_patterns("__pycache__", "out", "peers")
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored)
    assert trick.module.__file__ is not None
    if trick.without:
        with (tree / Path(trick.module.__file__).relative_to(ROOT)).open("a", encoding="utf-8") as file:
            file.write(f"\n{trick.without}\n")
    else:
        for path in (tree / "src" / "toolfold_guest").rglob("*.py"):
            path.write_text(look_up_aliases(path.read_text("utf-8")), "utf-8")
    try:
        yield tree
    finally:
        shutil.rmtree(tree)


def look_up_aliases(text: str) -> str:
    """A module's text with `os.dup2` wherever it has the alias of it."""
    found = re.search(r"^from toolfold_guest\.stdlib_names import (?:\(([^)]*)\)|(.*))\n", text, re.MULTILINE)
    if found is None:
        return text
    names = re.findall(r"\w+", found[1] or found[2])
    full = {name: _FULL_NAMES[name] for name in names}
    imports = "".join(f"import {module}\n" for module in sorted({one.partition(".")[0] for one in full.values()}))
    text = text.replace(found[0], imports)
    for name, expression in full.items():
        text = re.sub(rf"(?<![\w.\"']){name}\b(?!\s*=[^=])", expression, text)
    return text


_ALIAS = re.compile(r'^ *(\w+) = (?:int\()?(?:getattr\((\w+), "(\w+)", 0\)|([\w.]+))\)?$', re.MULTILINE)
_FULL_NAMES: dict[str, str] = {
    found[1]: found[4] or f"{found[2]}.{found[3]}"
    for found in _ALIAS.finditer(Path(stdlib_names.__file__).read_text("utf-8"))
}


def _measure(tree: Path, case: str) -> tuple[list[float], tuple[list[float], list[float]]]:
    """For each pair, how much longer it takes without; and the medians of both sides."""
    ratios: list[float] = []
    figures: tuple[list[float], list[float]] = ([], [])
    for _ in range(BLOCKS):
        sides = Side(ROOT), Side(tree)
        for side in sides:
            side.read()
            side.sample(case)
        for pair in range(PAIRS):
            taken: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS[case]):
                for number in (0, 1) if pair % 2 else (1, 0):
                    taken[number].append(sides[number].sample(case))
            medians = [statistics.median(samples) for samples in taken]
            ratios.append(medians[1] / medians[0])
            figures[0].append(medians[0])
            figures[1].append(medians[1])
        for side in sides:
            side.close()
    return ratios, figures
