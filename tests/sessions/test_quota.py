"""What a tenant's sessions may keep together, also where many of them are written at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

from toolfold.models import File
from toolfold.sessions.quota import Quota, QuotaExceeded
from toolfold.sessions.stores import Change, MemoryStore

WRITERS = 20


class AllAtOnce(MemoryStore):
    """Writes nothing until every writer has been let in or turned away, or has had time to be."""

    def __init__(self) -> None:
        super().__init__()
        self.decided = threading.Barrier(WRITERS)

    def merge(self, session: str, change: Change, *, max_bytes: int) -> None:
        self.decided.wait(10)
        super().merge(session, change, max_bytes=max_bytes)


def test_writers_at_the_same_time_see_each_other() -> None:
    store = AllAtOnce()
    quota = Quota(store, max_bytes=500)

    def write(number: int) -> bool:
        try:
            quota.merge(f"one/{number}", Change(put=[File(name="a", data=b"x" * 100)]), max_bytes=1000)
        except QuotaExceeded:
            store.decided.wait(10)
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        kept = list(pool.map(write, range(WRITERS)))

    assert (kept.count(True), sum(store.sizes().values())) == (5, 500)


def test_what_could_not_be_written_takes_no_room() -> None:
    quota = Quota(MemoryStore(), max_bytes=500)
    change = Change(put=[File(name="a", data=b"x" * 400)])

    refused = []
    for session, max_bytes in (("one/1", 100), ("one/2", 1000)):
        try:
            quota.merge(session, change, max_bytes=max_bytes)
        except Exception as error:  # noqa: BLE001 - whatever the store says
            refused.append((session, type(error).__name__))

    assert refused == [("one/1", "TooLarge")]
