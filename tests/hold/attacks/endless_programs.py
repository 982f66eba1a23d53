"""Loops without an end, as many as are taken, with threads beside them."""

from tests.hold.target import Target, run_programs

ITEM = 6


async def attack(target: Target) -> None:
    code = "import threading\ndef spin():\n    while True:\n        pass\nfor _ in range(8):\n    threading.Thread(target=spin).start()\nspin()"
    await run_programs(target, 20, code, timeout=2000)
