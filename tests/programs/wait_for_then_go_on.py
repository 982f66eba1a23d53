import asyncio

rows = []
for seconds in (0.0, 5.0, 0.0):
    try:
        rows.append(await asyncio.wait_for(slow(seconds), 1))
    except TimeoutError:
        rows.append("too slow")
print(rows)

# expect stdout:
# | [0.0, 'too slow', 0.0]
# expect calls: 3
