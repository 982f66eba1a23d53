import re

print(re.sub(r"(\d)x", r"\g<1>0", "1x2x"))
print(re.sub(r"(a)", r"\g<1>1", "banana"))

# expect stdout:
# | 1020
# | ba1na1na1
