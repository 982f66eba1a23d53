import asyncio

await asyncio.gather(price("A"), fail("one of them"))

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 3, in __main__
# |     await asyncio.gather(price("A"), fail("one of them"))
# | ToolError: 'fail' failed: one of them
# expect calls: 2
