import random

random.seed(7)
picked = [random.randint(1, 100) for _ in range(3)]
random.seed(7)
[picked == [random.randint(1, 100) for _ in range(3)], random.Random(1).choice([5]), 0 <= random.random() < 1]

# topic: modules
# expect value: [True, 5, True]
