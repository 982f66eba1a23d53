from fractions import Fraction

str(sum(Fraction(1, n) for n in range(1, 5)))

# topic: modules
# expect value: '25/12'
