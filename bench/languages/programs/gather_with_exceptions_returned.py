import asyncio

results = await asyncio.gather(add(a=1, b=2), fail(message="down"), return_exceptions=True)
[result if isinstance(result, int) else "failed" for result in results]

# topic: async
# expect value: [3, 'failed']
