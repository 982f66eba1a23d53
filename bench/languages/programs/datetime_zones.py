from datetime import datetime, timezone
from zoneinfo import ZoneInfo

moment = datetime(2026, 7, 1, 12, 0, tzinfo=timezone.utc)
moment.astimezone(ZoneInfo("Europe/Berlin")).isoformat()

# topic: modules
# expect value: '2026-07-01T14:00:00+02:00'
