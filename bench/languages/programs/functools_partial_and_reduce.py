from functools import partial, reduce
from operator import mul

power_of_two = partial(pow, 2)
[power_of_two(10), reduce(mul, [1, 2, 3, 4])]

# topic: functions
# expect value: [1024, 24]
