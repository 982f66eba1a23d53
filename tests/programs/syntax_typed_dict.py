from typing import TypedDict


class Row(TypedDict):
    amount: int


row: Row = {"amount": 3}
row

# expect value: {'amount': 3}
# limits: monty
