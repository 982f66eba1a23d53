import asyncio

try:
    await asyncio.wait_for(wait(seconds=3), timeout=0.05)
    answer = "in time"
except asyncio.TimeoutError:
    answer = "too late"
answer

# topic: async
# expect value: 'too late'
