"""Made-up names of signing keys, for an issuer whose address hangs."""

import base64
import json
import secrets

from tests.hold.target import Target, again_and_again

ITEM = 8
HTTP = 'jwt: {jwks_url: "http://127.0.0.1:SILENT_PORT/jwks"}'


async def attack(target: Target) -> None:
    async with target.client() as client:
        client.headers.pop("X-API-Key")

        async def once(_: int) -> None:
            head = {"alg": "EdDSA", "kid": secrets.token_hex(8)}
            token = ".".join((_encoded(head), _encoded({"iss": "librechat", "aud": "codeapi"}), "AAAA"))
            await client.post("/exec", json={"code": "1"}, headers={"Authorization": f"Bearer {token}"})

        await again_and_again(60, once)


def _encoded(part: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
