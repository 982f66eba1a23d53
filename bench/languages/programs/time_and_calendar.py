import calendar
import time

began = time.perf_counter()
elapsed = time.perf_counter() - began
[elapsed >= 0, time.time() > 1_700_000_000, calendar.monthrange(2028, 2)[1], time.strftime("%Y", time.gmtime(0))]

# topic: modules
# expect value: [True, True, 29, '1970']
