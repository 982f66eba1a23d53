await get_weather("Oslo")

# expect value: {'city': 'Oslo', 'celsius': 4}
# expect calls: 1
