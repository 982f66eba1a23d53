import random

random.seed(7)
first = [random.randint(1, 100) for _ in range(3)]
random.seed(7)
print(first == [random.randint(1, 100) for _ in range(3)])

# expect stdout:
# | True
