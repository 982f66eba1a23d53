import asyncio

rows = await asyncio.gather([price("A"), price("B")])
print(rows)

# expect rejected: line 3: 'gather' takes the calls one by one, not in a list; write 'gather(*[...])'
