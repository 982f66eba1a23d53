import asyncio

print(await asyncio.wait_for(slow(0.0), timeout=5))

# expect stdout:
# | 0.0
# expect calls: 1
