"""Have the interpreter know before the fork where it finds what a guest looks up after it.

It remembers the last 4096 look-ups of a name in a type. One that it does not know writes to its memory in that
place, and counts references to the name that was there and to the new one: up to three pages that a guest then has
to copy. Of a guest's look-ups all but some forty happen in its rehearsals too; those are told here, and no others,
for each one takes the place of another. `perf probe` on `find_name_in_mro` shows them.
"""

import sys


def recall(kind: type, names: str) -> None:
    """Look these names up. One that is not there is worth knowing, too."""
    for name in names.split():
        getattr(kind, sys.intern(name), None)
