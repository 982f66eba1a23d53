"""Requests between replicas that share a ledger: forwarded to the holder of an execution, signed, and answered there.

A request that arrives elsewhere is forwarded, once. Signed is what the request says, for whom, and to which replica,
with a key that is made from that of the tokens. There is no time in it: whoever sends it again repeats a request that
does nothing the second time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import httpx2
import msgspec

from toolfold.errors import LedgerFailed, UsageError
from toolfold.interfaces.http.outcome_bodies import Refusal
from toolfold.interfaces.http.request_models import HEADER, ForwardedRequest, ForwardedResponse
from toolfold.service.answer_memory import BoundedMemory
from toolfold.service.owners import LeaseOwner

_PATIENCE_LEASES: Final = 3
"""How long a request waits for a holder that renews its leases and cannot be reached."""
_TELL_SECONDS: Final = 5.0
_REMEMBERED: Final = 4096
_MISDIRECTED: Final = 421
_REPLICA_REPLACED: Final = "another replica has this address now"
_MOVED: Final = "another replica holds this execution"
_ANSWERED_HEADERS: Final = ("content-type", "retry-after", "location")
_PURPOSE: Final = b"toolfold: a request from replica to replica"
_CONNECT_SECONDS: Final = 2.0
_log: Final = logging.getLogger(__name__)


class Replicas:
    """This process among the replicas that share its ledger and the key of the tokens."""

    def __init__(self, owner: LeaseOwner, key: bytes) -> None:
        self.owner = owner
        self.forwarder = Forwarder(key)
        self._last_owners: BoundedMemory[str, str] = BoundedMemory(_REMEMBERED)

    async def close(self) -> None:
        await self.owner.close()
        await self.forwarder.close()

    async def forward(self, execution_id: str, request: ForwardedRequest) -> ForwardedResponse | None:
        """Response of the replica that holds an execution; `None` if only this one may hold it.

        `Refusal` 503 if another replica holds it and cannot be reached.
        """
        leases = self.owner.leases
        patience = time.monotonic() + _PATIENCE_LEASES * self.owner.lease_seconds
        while True:
            # Ask whoever answered last time without a look at the lease: it says so if it no longer holds it.
            remembered = None if request.is_from_replica else self._last_owners.pop(execution_id)
            owner = remembered or await leases.owner_of(execution_id)
            if owner is None or owner == self.owner.name:
                return None
            if request.is_from_replica:
                raise Refusal(_MISDIRECTED, _MOVED, is_contract=False)
            replica, _, address = owner.partition(" ")
            response = await self._ask(execution_id, request, owner) if address else None
            if response is not None and response.status != _MISDIRECTED:
                self._last_owners.put(execution_id, owner)
                return response
            if response is not None and _error_text(response) == _REPLICA_REPLACED:
                _log.warning("replica %s is gone; its executions are released", replica)
                await leases.release([execution_id], owner=owner)
            elif time.monotonic() > patience:
                raise _unreachable_refusal(address)
            elif response is None and not remembered:
                await asyncio.sleep(self.owner.pause_seconds)

    async def _ask(self, execution_id: str, request: ForwardedRequest, owner: str) -> ForwardedResponse | None:
        """The holder's response, unless it loses the execution first."""
        replica, _, address = owner.partition(" ")
        task = asyncio.create_task(self.forwarder.send(request, replica, address))
        try:
            while not task.done():
                await asyncio.wait([task], timeout=self.owner.beat_seconds)
                if not task.done() and not await self._still_holds(execution_id, owner):
                    # It may have released the execution just before it answered, so wait a moment longer.
                    await asyncio.wait([task], timeout=self.owner.pause_seconds)
                    break
            return task.result() if task.done() else None
        finally:
            task.cancel()

    async def _still_holds(self, execution_id: str, owner: str) -> bool:
        try:
            return await self.owner.leases.owner_of(execution_id) == owner
        except LedgerFailed:
            return True  # without the ledger, nobody can take it over

    async def broadcast(self, request: ForwardedRequest) -> None:
        """Send a request to every other replica, whatever they answer."""
        if request.is_from_replica:
            return
        others = [owner.partition(" ") for owner in await self.owner.leases.replicas() if owner != self.owner.name]
        requests = [self.forwarder.send(request, replica, address) for replica, _, address in others if address]
        with suppress(TimeoutError):
            async with asyncio.timeout(_TELL_SECONDS):
                await asyncio.gather(*requests)


def validate_address(address: str) -> str:
    """An address for other replicas, or a `UsageError`."""
    scheme, separator, rest = address.partition("://")
    if scheme not in ("http", "https") or not separator or not rest or any(sign in rest for sign in " ?#@"):
        raise UsageError(
            f"{address!r} is not an address at which other replicas can reach this one; write one like http://10.0.0.5:8000"
        )
    return address


def _error_text(response: ForwardedResponse) -> str:
    with suppress(msgspec.DecodeError, TypeError, KeyError):
        return str(msgspec.json.decode(response.body)["error"])
    return ""


def _unreachable_refusal(address: str) -> Refusal:
    text = "cannot be reached; try again" if address else "has no address; start each with --advertise"
    return Refusal(503, f"the replica that holds this execution {text}", is_contract=False)


class Forwarder:
    """Sends requests to replicas, and recognises those that they sent, by the key of the tokens."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, _PURPOSE, "sha256")
        # No proxy of the environment: these requests stay among replicas. Answers take as long as programs run.
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=3),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, request: ForwardedRequest, replica: str, address: str) -> ForwardedResponse | None:
        tenant = base64.urlsafe_b64encode(request.tenant.encode()).decode()
        digest = hashlib.sha256(request.body).hexdigest()
        signed = f"{replica}.{tenant}.{digest}.{self._signature(request, replica, digest)}"
        # Named even where it is empty: the client has one of its own, which is not signed.
        texts = {"user-agent": "", **request.headers, HEADER: signed, "content-type": "application/json"}
        # As bytes, as they came: text that is not ASCII would be refused.
        headers = {name.encode(): value.encode("latin-1") for name, value in texts.items()}
        try:
            response = await self._client.request(
                request.method, address + request.path, content=request.body, headers=headers
            )
        except (httpx2.TransportError, httpx2.InvalidURL):
            return None
        response_headers = {name: response.headers[name] for name in _ANSWERED_HEADERS if name in response.headers}
        return ForwardedResponse(response.status_code, response.content, response_headers)

    def receive(self, signed: str, request: ForwardedRequest, replica: str) -> VerifiedSender:
        """Check a request before its body has come: 401 if no replica sent it, 421 if it is for an earlier one."""
        target, _, rest = signed.partition(".")
        encoded, _, rest = rest.partition(".")
        digest, _, signature = rest.partition(".")
        try:
            tenant = base64.urlsafe_b64decode(encoded).decode()
        except ValueError as error:
            raise _untrusted_refusal() from error
        expected = self._signature(replace(request, tenant=tenant), target, digest)
        if not hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), expected.encode()):
            raise _untrusted_refusal()
        if target != replica:
            raise Refusal(_MISDIRECTED, _REPLICA_REPLACED, is_contract=False)
        return VerifiedSender(tenant, digest)

    def _signature(self, request: ForwardedRequest, replica: str, digest: str) -> str:
        words = (request.method, request.path, replica, request.tenant, sorted(request.headers.items()), digest)
        return hmac.digest(self._key, msgspec.json.encode(words), "sha256").hex()


@dataclass(frozen=True, slots=True)
class VerifiedSender:
    """Verified sender of a request, and the body that it must have."""

    tenant: str
    _digest: str

    def check(self, body: bytes) -> None:
        if hashlib.sha256(body).hexdigest() != self._digest:
            raise _untrusted_refusal()


def _untrusted_refusal() -> Refusal:
    return Refusal(401, "missing or wrong API key", is_contract=False)
