import asyncio

tasks = {asyncio.create_task(add(n, 0)) for n in range(3)}
done, pending = await asyncio.wait(tasks)
print(sorted(task.result() for task in done), len(pending))

# expect stdout:
# | [0, 1, 2] 0
# expect calls: 3
# limits: monty
