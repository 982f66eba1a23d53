"""One attack against one server, until it is ended: `python -m tests.hold.attacker NAME URL`."""

import asyncio
import importlib
import os
import resource
import sys

from tests.hold.target import Target


def main(name: str, url: str) -> None:
    # The machine has few processors: what is measured is the server, not who gets one.
    os.nice(10)
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    module = importlib.import_module(f"tests.hold.attacks.{name}")
    print("attacking", flush=True)
    asyncio.run(module.attack(Target(url)))


if __name__ == "__main__":
    main(*sys.argv[1:])
