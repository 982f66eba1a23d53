import re

text = "Order #12 for ada@example.com, order #7 for bo@example.org"
[re.findall(r"#(\d+)", text), [match["host"] for match in re.finditer(r"@(?P<host>[\w.]+)", text)], re.sub(r"\d+", lambda match: str(int(match[0]) + 1), text)]

# topic: modules
# expect value: [['12', '7'], ['example.com', 'example.org'], 'Order #13 for ada@example.com, order #8 for bo@example.org']
