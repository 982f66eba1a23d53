from tools import *

print(await add(20, 22))

# expect stdout:
# | 42
# expect calls: 1
