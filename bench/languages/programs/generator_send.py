def averager():
    total, count, average = 0.0, 0, None
    while True:
        value = yield average
        total += value
        count += 1
        average = total / count

running = averager()
next(running)
[running.send(value) for value in [10, 20, 30]]

# topic: functions
# expect value: [10.0, 15.0, 20.0]
