from decimal import ROUND_HALF_UP, Decimal

total = sum(Decimal(text) for text in ["0.10", "0.20", "19.995"])
[str(total), str(total.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP))]

# topic: modules
# expect value: ['20.295', '20.30']
