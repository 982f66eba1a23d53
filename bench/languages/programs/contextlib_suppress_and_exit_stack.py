from contextlib import ExitStack, suppress

closed = []
with suppress(KeyError), ExitStack() as stack:
    for name in "ab":
        stack.callback(closed.append, name)
    {}["missing"]
closed

# topic: functions
# expect value: ['b', 'a']
