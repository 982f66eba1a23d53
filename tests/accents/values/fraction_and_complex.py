from fractions import Fraction

{"third": Fraction(1, 3), "two": Fraction(4, 2), "root": 1 + 2j, "roots": (3j, Fraction(-1, 2))}

# expect value: {"third": "1/3", "two": 2, "root": "1+2j", "roots": ["3j", "-1/2"]}
# limits: monty
