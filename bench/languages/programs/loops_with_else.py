found = []
for n in range(2, 20):
    for d in range(2, n):
        if n % d == 0:
            break
    else:
        found.append(n)
found

# topic: syntax
# expect value: [2, 3, 5, 7, 11, 13, 17, 19]
