from datetime import date, datetime, timedelta

start = date(2026, 1, 31)
print(start + timedelta(days=1), datetime(2026, 1, 1, 8).strftime("%Y-%m-%d %H:%M"), start.isoformat())

# expect stdout:
# | 2026-02-01 2026-01-01 08:00 2026-01-31
