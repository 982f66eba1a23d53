import re

print(re.sub(r"\d+", lambda found: str(int(found.group()) * 2), "1 and 20"))

# expect stdout:
# | 2 and 40
