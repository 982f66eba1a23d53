from decimal import Decimal

[Decimal("1.50")]

# expect value: [1.5]
