import re

print(re.findall(r"\d+", "a1b22c333"), re.sub(r"\s+", " ", "a   b\n c"))

# expect stdout:
# | ['1', '22', '333'] a b c
