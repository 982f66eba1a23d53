def describe(first, *rest, sep="-", **extra):
    return sep.join([first, *rest]) + str(sorted(extra.items()))

describe("a", "b", "c", sep="+", x=1, y=2)

# topic: functions
# expect value: "a+b+c[('x', 1), ('y', 2)]"
