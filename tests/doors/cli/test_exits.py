from typing import get_args

from toolfold import errors
from toolfold.doors.cli.exits import _OF_ERROR, exit_of_status
from toolfold.models import Status


def test_every_error_class_has_an_exit_code_of_its_own() -> None:
    classes = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.ToolfoldError)}

    assert set(_OF_ERROR) == classes


def test_every_status_has_the_exit_code_that_the_documents_say() -> None:
    assert {status: int(exit_of_status(status)) for status in get_args(Status)} == {
        "finished": 0,
        "failed": 1,
        "rejected": 2,
        "timeout": 4,
        "cancelled": 130,
        "limit": 4,
    }
