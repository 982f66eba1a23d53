import re

pattern = re.compile(r"(\w)(\d)")
print(pattern.sub(r"\1_\2", "a1 b2"), pattern.sub(r"\2\1", "a1 b2"))

# expect stdout:
# | a_1 b_2 1a 2b
