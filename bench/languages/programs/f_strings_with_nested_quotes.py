user = {"name": "Ada", "tags": ["x", "y"]}
width = 8
[f"{user['name']:>{width}}|{', '.join(tag.upper() for tag in user['tags'])}", f"{3.14159:.2f} {1234567:,} {0.25:.0%}", f"{width=}"]

# topic: syntax
# expect value: ['     Ada|X, Y', '3.14 1,234,567 25%', 'width=8']
