"""The record of one call: nothing that is known of it is left out."""

from inspect import signature
from typing import Any

import pytest

from toolfold.execution.outcome import record_of
from toolfold.models import Call, CallRecord, Reply, ReplyMeta

META = ReplyMeta(attempts=3, cached=True, breaker="opened", from_record=True, arguments={"n": 2})
CALL = Call(id=7, tool="price", arguments={"n": 1}, line=4, within=2)
REPLY = Reply(call_id=7, value=[1], error="no", size_bytes=9, meta=META, traceback="Traceback")


# Any: fields of all types.
def defaults(kind: type) -> dict[str, Any]:
    return {name: one.default for name, one in signature(kind).parameters.items()}


@pytest.mark.parametrize(
    "given", [CALL, REPLY, META, record_of(CALL, REPLY, 1.5, 0.5)], ids=lambda given: type(given).__name__
)
def test_no_field_has_its_default_here(given: object) -> None:
    assert [name for name, default in defaults(type(given)).items() if getattr(given, name) == default] == []


@pytest.mark.parametrize("given", [CALL, REPLY], ids=lambda given: type(given).__name__)
def test_a_record_has_what_it_shares_with_the_call_and_the_reply(given: Call | Reply) -> None:
    record = record_of(CALL, REPLY, 1.5, 0.5)

    shared = defaults(type(given)).keys() & defaults(CallRecord).keys()

    assert {name: getattr(record, name) for name in shared} == {name: getattr(given, name) for name in shared}
