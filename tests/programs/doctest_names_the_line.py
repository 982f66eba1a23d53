import doctest


def double(
    number: int,
) -> int:
    """Twice a number.

    >>> double(2)
    5
    """
    return 2 * number


print(doctest.testmod(report=False))

# expect stdout:
# | **********************************************************************
# | File "/mnt/data/program.py", line 9, in __main__.double
# | Failed example:
# |     double(2)
# | Expected:
# |     5
# | Got:
# |     4
# | TestResults(failed=1, attempted=1)
# limits: monty
