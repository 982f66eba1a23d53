from contextlib import asynccontextmanager

events = []

@asynccontextmanager
async def session(name):
    events.append(f"open {name}")
    try:
        yield await get_price(ticker=name)
    finally:
        events.append(f"close {name}")

async with session("A") as row:
    events.append(row["price"])
events

# topic: async
# expect value: ['open A', 10, 'close A']
