import re
from re import sub

snake = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", "camelCaseText")
again = re.compile("([a-z0-9])([A-Z])").sub(r"\1_\2", snake)
replacement = "\\1_x"
print(again, sub("(a)", replacement, "banana", count=1), re.sub(r"(?P<n>\d+)", r"<\g<n>>", "a1b22"))
print(re.sub("(a)n", lambda found: found.group(1).upper(), "banana"), re.sub("(n)", "\\\\\\1", "an"))

# expect stdout:
# | camel_Case_Text ba_xnana a<1>b<22>
# | bAAa a\n
