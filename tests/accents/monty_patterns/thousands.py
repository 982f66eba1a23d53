import re

total = (await price("A"))["price"] * 123456
print(re.sub(r"(\d)(?=(\d{3})+$)", r"\1,", str(total)))

# expect stdout:
# | 1,234,560
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'price' would do
