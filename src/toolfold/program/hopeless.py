"""Calls that cannot work here, whatever their arguments: nobody types, no network, no other process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from toolfold.program.arguments import Fault
from toolfold.program.reader import Reader, Use


def hopeless_faults(reader: Reader, runs: Callable[[Use], bool]) -> Iterator[Fault]:
    """Faults in no order; `runs` tells which code is run."""
    for use in reader.loads.get("input", ()):
        is_called = any(call.node.func is use.node for call in reader.calls)
        if is_called and use.scope.find("input") is None and runs(use):
            text = "'input' cannot work here: nobody is there to type; write the value into the program"
            yield Fault("input", text, use.node)
