import re

print(re.sub(r"(\w+)@(\w+)", r"\1_at_\2", "a@b c@d", count=1))
print(re.sub(r"(o)", r"[\1]", "foo", count=1))

# expect stdout:
# | a_at_b c@d
# | f[o]o
