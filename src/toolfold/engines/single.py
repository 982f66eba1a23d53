"""Single-use fork server, started early with only the libraries that one program names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toolfold.engines.process.launch import Launched, LaunchPlan, launch_ahead, tier_named
from toolfold.engines.process.layout import with_room
from toolfold.models import OWN_SETS, InstalledSet, LibrarySet, Limits
from toolfold_guest.shared.names import DATA_LIBRARIES, SCIENCE_LIBRARIES

_IMPORT: Final = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w.]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SingleUseServer:
    """An option of the process engine, for a host that runs one program and leaves."""

    plan: LaunchPlan
    launched: Launched

    @classmethod
    def launch(cls, text: str, limits: Limits, *, isolation: str, sets: Sequence[InstalledSet] = ()) -> SingleUseServer:
        """Start the server for this program.

        Raises:
            EngineUnavailable: This is not Linux.
        """
        plan = _plan_of(text, limits, isolation, sets)
        return cls(plan, launch_ahead(plan))

    def fits(self, text: str, limits: Limits, *, isolation: str, sets: Sequence[InstalledSet] = ()) -> bool:
        """Whether it is what `launch` would start."""
        return self.plan == _plan_of(text, limits, isolation, sets)

    def has(self, library_set: LibrarySet) -> bool:
        """Whether a program that needs this set can run in it."""
        return library_set in OWN_SETS or any(candidate.replaces(library_set) for candidate in self.plan.sets)

    def give_up(self) -> None:
        """Stop an unused server; it has ended when this returns."""
        # The end of the control socket is the order to end.
        self.launched.control.close()
        self.launched.process.wait()


def _plan_of(text: str, limits: Limits, isolation: str, sets: Sequence[InstalledSet]) -> LaunchPlan:
    mounted = _set_of(text, sets)
    return LaunchPlan(
        tier=tier_named(isolation),
        library_set="bare",
        limits=with_room(limits, mounted),
        sets=() if mounted is None else (mounted,),
        loop_module="toolfold_guest.main",
        host_libraries=False,
        modules=modules_of(text),
    )


def modules_of(text: str) -> tuple[str, ...]:
    """Preloadable libraries that the program imports; it imports any others itself.

    The text is a stranger's, so nothing is loaded that is not one of ours.
    """
    roots = _roots(text)
    if "sklearn" in roots:
        roots.add("scipy")
    return tuple(name for name in (*DATA_LIBRARIES, *SCIENCE_LIBRARIES) if name.partition(".")[0] in roots)


def _set_of(text: str, sets: Sequence[InstalledSet]) -> InstalledSet | None:
    """The installed set that the program most likely needs; should the check find another, its jail is made then."""
    # What is preloaded needs a server of its own: it is imported before the last locks are set.
    candidates = [
        candidate for candidate in sets if not candidate.preload and not _roots(text).isdisjoint(candidate.modules)
    ]
    return max(candidates, key=lambda candidate: len(_roots(text) & candidate.modules), default=None)


def _roots(text: str) -> set[str]:
    return {name.partition(".")[0] for name in _IMPORT.findall(text)}
