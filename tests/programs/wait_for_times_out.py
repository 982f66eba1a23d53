import asyncio

try:
    await asyncio.wait_for(slow(5), timeout=0.05)
except asyncio.TimeoutError:
    print("too slow")

# expect stdout:
# | too slow
# expect calls: 1
