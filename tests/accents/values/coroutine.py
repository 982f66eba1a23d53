pending = price("A")
{"pending": [pending]}

# expect value: {"pending": [{"ticker": "A", "price": 10}]}
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'price' would do
