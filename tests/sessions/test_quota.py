"""What a tenant's sessions may keep together, also where many of them are written at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolfold.models import File
from toolfold.sessions.sessions import Quota, QuotaExceeded
from toolfold.sessions.stores import Change, MemoryStore, TooLarge

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
    store = MemoryStore()
    quota = Quota(store, max_bytes=500)
    change = Change(put=[File(name="a", data=b"x" * 400)])

    with pytest.raises(TooLarge):
        quota.merge("one/1", change, max_bytes=100)
    quota.merge("one/2", change, max_bytes=1000)

    assert store.sizes() == {"one/2": 400}
