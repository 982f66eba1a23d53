import re

print(re.sub(r"(?P<last>\w+), (?P<first>\w+)", r"\g<first> \g<last>", "Lovelace, Ada"))

# expect stdout:
# | Ada Lovelace
