import datetime

await echo([(1, 2), {3}, datetime.date(2026, 1, 31), float("nan"), b"\x01", None, {"k": 1.5}])

# expect value: [[1, 2], [3], '2026-01-31', None, b'\x01', None, {'k': 1.5}]
# expect calls: 1
