import math

print(math.sqrt(16), math.floor(2.7), round(math.pi, 3))

# expect stdout:
# | 4.0 2 3.142
