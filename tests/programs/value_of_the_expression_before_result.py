result = 1
2

# expect value: 2
