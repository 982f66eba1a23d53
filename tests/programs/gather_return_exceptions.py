import asyncio

results = await asyncio.gather(price("A"), fail("no luck"), price("B"), return_exceptions=True)
for result in results:
    print("failed:" if isinstance(result, Exception) else "got:", result)

# expect stdout:
# | got: {'ticker': 'A', 'price': 10}
# | failed: 'fail' failed: no luck
# | got: {'ticker': 'B', 'price': 20}
# expect value: {'ticker': 'B', 'price': 20}
# expect calls: 3
