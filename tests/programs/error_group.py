raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])

# expect error:
# |   + Exception Group Traceback (most recent call last):
# |   |   File "<program>", line 1, in __main__
# |   |     raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])
# |   | ExceptionGroup: several (2 sub-exceptions)
# |   +-+---------------- 1 ----------------
# |     | ValueError: one
# |     +---------------- 2 ----------------
# |     | KeyError: 'two'
# |     +------------------------------------
# expect message: ExceptionGroup: several (2 sub-exceptions)
# limits: monty
