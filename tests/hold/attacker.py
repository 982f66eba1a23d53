"""One attack against one server, until it is ended: `python -m tests.hold.attacker NAME URL NICENESS`."""

import asyncio
import importlib
import os
import resource
import sys
from typing import Any

from tests.hold.target import Target


def main(name: str, url: str, niceness: str) -> None:
    os.nice(int(niceness))
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    module = importlib.import_module(f"tests.hold.attacks.{name}")
    asyncio.run(_attack(module, Target(url)))


# Any: a module with the names that all of them have.
async def _attack(module: Any, target: Target) -> None:
    if hasattr(module, "prepare"):
        await module.prepare(target)
    print("attacking", flush=True)
    await module.attack(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
