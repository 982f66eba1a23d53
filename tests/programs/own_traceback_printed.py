import logging
import sys
import traceback

try:
    1 / 0
except ZeroDivisionError:
    print(traceback.format_exc().splitlines()[1].strip())
    print(traceback.format_exc().splitlines()[2].strip())

logging.basicConfig(stream=sys.stdout, format="%(funcName)s: %(message)s")
logging.error("down")

# expect stdout:
# | File "<program>", line 6, in <module>
# | 1 / 0
# | <module>: down
# limits: monty
