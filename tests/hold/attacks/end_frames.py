"""Guests that send millions of empty lists as their value, past the code that counts them: three bytes each, then many."""

from tests.hold.target import Target, run_programs

ITEM = 3
_CODE = """
import os, struct

body = b'[3,"","","finished",[' + b"[]," * 6_000_000 + b'[]],"",[0,0]]'
left = memoryview(struct.pack("<I", len(body)) + body)
while left:
    left = left[os.write(3, left):]
"""


async def attack(target: Target) -> None:
    await run_programs(target, 2, _CODE)
