pending = price("A")
{"pending": [pending]}

# expect value: {"pending": [{"ticker": "A", "price": 10}]}
# expect calls: 1
