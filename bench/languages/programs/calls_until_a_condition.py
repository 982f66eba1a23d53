total, steps = 1, 0
while total < 100:
    total = await add(a=total, b=total)
    steps += 1
{"total": total, "steps": steps}

# topic: calls
# expect value: {'total': 128, 'steps': 7}
