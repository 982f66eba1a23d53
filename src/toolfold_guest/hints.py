"""What a program that ended is told to do better next time. Must not cost a program that needs no hint anything."""

from collections import Counter

from toolfold_guest import pending
from toolfold_guest.channel import Habits
from toolfold_guest.styles import MOST_NOTES, parallel_hints


def hints_of(habits: Habits, notes: list[str]) -> list[str]:
    """What the calls of a program and its value suggest."""
    hints = [*notes[:MOST_NOTES], *parallel_hints(habits.in_place)]
    if len(notes) > MOST_NOTES:
        hints.insert(MOST_NOTES, f"{len(notes) - MOST_NOTES} other parts of the value were sent as text, too")
    if habits.has_pending:
        # To look at every object of the interpreter is slow: only for programs that may have left a call unmade.
        counts = Counter([*habits.never_made, *pending.unmade()])
        hints += [_never_made(name, count) for name, count in counts.items()]
    return hints


def _never_made(name: str, count: int) -> str:
    calls = "1 call" if count == 1 else f"{count} calls"
    verb = "was" if count == 1 else "were"
    return f"{calls} of {name!r} {verb} never made: nothing awaited or used the reply; write 'await {name}(...)'"
