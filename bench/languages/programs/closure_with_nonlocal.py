def counter():
    count = 0

    def increase(by=1):
        nonlocal count
        count += by
        return count

    return increase

up = counter()
[up(), up(5), up()]

# topic: functions
# expect value: [1, 6, 7]
