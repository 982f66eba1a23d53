import copy
from pprint import pformat

original = {"a": [1, 2]}
deep = copy.deepcopy(original)
deep["a"].append(3)
[original, pformat(deep)]

# topic: modules
# expect value: [{'a': [1, 2]}, "{'a': [1, 2, 3]}"]
