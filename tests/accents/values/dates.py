import datetime

[datetime.date(2026, 1, 31), datetime.datetime(2026, 1, 31, 12, 30), datetime.timedelta(minutes=1)]

# expect value: ['2026-01-31', '2026-01-31T12:30:00', 60.0]
