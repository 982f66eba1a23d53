from tools import (
    add,
    price,
)

print(await add(1, 1), (await price("A"))["price"])

# expect stdout:
# | 2 10
# expect calls: 2
