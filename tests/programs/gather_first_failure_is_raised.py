import asyncio

try:
    await asyncio.gather(price("A"), fail("first"))
except Exception as error:
    print(error)

# expect stdout:
# | 'fail' failed: first
# expect calls: 2
