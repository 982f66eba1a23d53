"""Forwarding of requests between replicas: signed requests, and responses passed on unchanged.

Signed is what the request says, for whom, and to which replica, with a key that is made from that of the
tokens. There is no time in it: whoever sends it again repeats a request that does nothing the second time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import Final

import httpx2
import msgspec

from toolfold.interfaces.http.render import Refusal
from toolfold.interfaces.http.requests import HEADER, ForwardedRequest, ForwardedResponse

_ANSWERED_HEADERS: Final = ("content-type", "retry-after", "location")
_PURPOSE: Final = b"toolfold: a request from replica to replica"
MISDIRECTED: Final = 421
REPLICA_REPLACED: Final = "another replica has this address now"
MOVED: Final = "another replica holds this execution"
_CONNECT_SECONDS: Final = 2.0


class Forwarder:
    """Sends requests to replicas, and recognises those that they sent.

    Args:
        key: Of the tokens, shared by all replicas.
    """

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, _PURPOSE, "sha256")
        # No proxy of the environment: these requests stay among replicas. Answers take as long as programs run.
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=3),
            trust_env=False,
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def send(self, request: ForwardedRequest, replica: str, address: str) -> ForwardedResponse | None:
        """Response of that replica; `None` if there is none."""
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
        """What another replica vouches for; its body need not have come yet.

        Raises:
            Refusal: 401 if no replica sent this; 421 if it is for the one that was here before.
        """
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
            raise Refusal(MISDIRECTED, REPLICA_REPLACED, is_contract=False)
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
        """Raises 401 for another body than the replica sent."""
        if hashlib.sha256(body).hexdigest() != self._digest:
            raise _untrusted_refusal()


def _untrusted_refusal() -> Refusal:
    return Refusal(401, "missing or wrong API key", is_contract=False)
