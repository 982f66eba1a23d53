"""The header `Idempotency-Key`: a start that is sent twice gets one answer.

The same key and body get the same answer, and the program runs once. Answers are kept in memory. The
execution's id is derived from key and body, so the ledger can find it when this process cannot.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from toolfold.doors.http.answers import Answer
from toolfold.doors.http.executions import Executions
from toolfold.doors.http.forwarded import ForwardedRequest, Passed
from toolfold.doors.http.held import Start
from toolfold.doors.http.refusals import Refusal
from toolfold.doors.http.settings import Settings

MAX_REMEMBERED: Final = 2000
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_ID_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class _Sent:
    """A start that was sent with a key."""

    execution_id: str
    answer: asyncio.Future[Answer | Passed]


class Once:
    """The starts of all tenants that had a key; the oldest answers make room, and are in the ledger then."""

    def __init__(self, executions: Executions, settings: Settings) -> None:
        self._executions = executions
        self._secret = settings.token_key
        self._max_bytes = settings.remembered_bytes
        self._sent: dict[tuple[str, str], _Sent] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        """Bytes of those that are answered, the oldest first."""
        self._bytes = 0

    async def start(self, start: Start, key: str | None, request: ForwardedRequest) -> Answer | Passed:
        """Start an execution, unless the same request did before, here or at another replica.

        Raises:
            Refusal: 400 for a key that is none, 422 for one that came with another body.
        """
        if key is None:
            return await self._executions.start(start)
        start = self.named(start, key, request)
        sent = self._sent.get((start.tenant, key))
        if sent is None:
            return await self._first(start, key, request)
        if not hmac.compare_digest(sent.execution_id, start.execution_id):
            raise Refusal(422, f"Idempotency-Key {key[:80]!r} was sent with another request; take a new key")
        return await asyncio.shield(sent.answer)

    def named(self, start: Start, key: str, request: ForwardedRequest) -> Start:
        """The same start with the id that the execution of this key has, whoever takes it.

        Raises:
            Refusal: 400 for a key that is none.
        """
        if not _KEY.fullmatch(key):
            raise Refusal(400, "Idempotency-Key must be 1 to 255 visible ASCII characters; send such a key, or none")
        # Signed, so that no tenant can name the execution of another.
        whole = msgspec.json.encode([start.tenant, key, request.path, hashlib.sha256(request.body).hexdigest()])
        return replace(start, execution_id=hmac.digest(self._secret, whole, "sha256")[:_ID_BYTES].hex())

    async def _first(self, start: Start, key: str, request: ForwardedRequest) -> Answer | Passed:
        sent = _Sent(start.execution_id, asyncio.get_running_loop().create_future())
        self._sent[start.tenant, key] = sent
        try:
            answer = await self._executions.start_once(start, request)
        except BaseException as error:
            # Turned away, so nothing is to be remembered: the key may be sent again.
            self._sent.pop((start.tenant, key), None)
            sent.answer.set_exception(error if isinstance(error, Exception) else Refusal(503, "the server stops"))
            sent.answer.exception()  # nobody has to ask for it
            raise
        sent.answer.set_result(answer)
        if isinstance(answer, Passed):
            self._sent.pop((start.tenant, key), None)  # it is remembered where it was made
        else:
            self._remember((start.tenant, key), answer)
        return answer

    def _remember(self, key: tuple[str, str], answer: Answer) -> None:
        self._sizes[key] = len(msgspec.json.encode(answer.body))
        self._bytes += self._sizes[key]
        while len(self._sizes) > MAX_REMEMBERED or self._bytes > self._max_bytes:
            oldest = next(iter(self._sizes))
            self._bytes -= self._sizes.pop(oldest)
            del self._sent[oldest]
