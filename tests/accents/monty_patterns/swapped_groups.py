import re

print(re.sub(r"(\w+) (\w+)", r"\2 \1", "Ada Lovelace"))
print(re.sub(r"(\d+)-(\d+)", r"\2_\1", "10-20 30-40"))

# expect stdout:
# | Lovelace Ada
# | 20_10 40_30
