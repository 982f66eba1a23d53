seen = []

def check(n):
    seen.append(n)
    return n > 2

found = next(n for n in [1, 2, 3, 4, 5] if check(n))
[found, seen]

# topic: functions
# expect value: [3, [1, 2, 3]]
