import datetime

{(1, 2): "pair", datetime.date(2026, 1, 31): "day", 3: "number"}

# expect value: {"(1, 2)": "pair", "2026-01-31": "day", "3": "number"}
