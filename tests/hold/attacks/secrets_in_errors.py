"""Programs that make a tool of the server's fail, and read the password in its error."""

from tests.hold.host import PASSWORD
from tests.hold.target import Target, again_and_again

ITEM = 11


async def attack(target: Target) -> None:
    code = "try:\n    await connect()\nexcept Exception as error:\n    print(error)"
    async with target.client() as client:

        async def once(_: int) -> None:
            answer = await client.post("/exec", json={"code": code, "lang": "py"})
            if PASSWORD in answer.text:
                raise SystemExit("the password was told")

        await again_and_again(2, once)
