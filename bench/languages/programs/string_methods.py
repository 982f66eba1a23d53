text = "  Hello, World  "
[text.strip().lower().replace(",", "").split(), "a-b-c".rsplit("-", 1), "x".center(5, "*"), "abc".translate(str.maketrans("ab", "xy")), "%s=%d" % ("n", 3), "{:>4}|{name}".format(7, name="z")]

# topic: syntax
# expect value: [['hello', 'world'], ['a-b', 'c'], '**x**', 'xyc', 'n=3', '   7|z']
