print("a", "b", sep="-", end="!\n")
print(*range(3), sep=", ")
print(f"{'total':<10}{30:>6}")

# topic: output
# expect stdout:
# | a-b!
# | 0, 1, 2
# | total         30
