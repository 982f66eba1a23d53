def chunks(items, size):
    for start in range(0, len(items), size):
        yield items[start:start + size]

[[user["id"] for user in chunk] for chunk in chunks(await get_users(), 2)]

# topic: functions
# expect value: [['u1', 'u2'], ['u3']]
