import asyncio


async def fails():
    raise ValueError("one\ntwo")


async with asyncio.TaskGroup() as group:
    group.create_task(fails())

# expect error:
# |   + Exception Group Traceback (most recent call last):
# |   |   File "<program>", line 8, in __main__
# |   |     async with asyncio.TaskGroup() as group:
# |   | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
# |   +-+---------------- 1 ----------------
# |     | Traceback (most recent call last):
# |     |   File "<program>", line 5, in fails
# |     |     raise ValueError("one\ntwo")
# |     | ValueError: one
# |     | two
# |     +------------------------------------
# expect message: ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
# limits: monty
