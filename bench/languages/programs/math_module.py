import math

[math.sqrt(16), math.ceil(2.1), round(math.log(math.e), 6), math.gcd(12, 18), math.isclose(0.1 + 0.2, 0.3), math.prod([1, 2, 3]), math.comb(5, 2)]

# topic: modules
# expect value: [4.0, 3, 1.0, 6, True, 6, 10]
