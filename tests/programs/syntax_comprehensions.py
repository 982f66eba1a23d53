print({n: n * n for n in range(3)}, sorted({n % 2 for n in range(5)}), [(a, b) for a in "xy" for b in (1, 2)])

# expect stdout:
# | {0: 0, 1: 1, 2: 4} [0, 1] [('x', 1), ('x', 2), ('y', 1), ('y', 2)]
