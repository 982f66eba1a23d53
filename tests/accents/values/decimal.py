from decimal import Decimal

[Decimal("1.50"), Decimal("0.1234567890123456789")]

# expect value: [1.5, "0.1234567890123456789"]
