from typing import get_args

from toolfold.doors.cli.exits import exit_of_status
from toolfold.models import Status


def test_every_status_has_the_exit_code_that_the_documents_say() -> None:
    assert {status: int(exit_of_status(status)) for status in get_args(Status)} == {
        "finished": 0,
        "failed": 1,
        "rejected": 2,
        "timeout": 4,
        "cancelled": 130,
        "limit": 4,
    }
