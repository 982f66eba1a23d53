import asyncio

try:
    async with asyncio.TaskGroup() as group:
        group.create_task(fail("in the group"))
except* ToolError as failures:
    print([str(error) for error in failures.exceptions])

# expect stdout:
# | ["'fail' failed: in the group"]
# expect calls: 1
# limits: monty
