from datetime import date, datetime, timedelta

start = datetime.fromisoformat("2026-03-01T09:30:00")
end = start + timedelta(days=30, hours=5)
[end.isoformat(), end.strftime("%d.%m.%Y"), (date(2026, 12, 24) - date(2026, 11, 15)).days, start.weekday()]

# topic: modules
# expect value: ['2026-03-31T14:30:00', '31.03.2026', 39, 6]
