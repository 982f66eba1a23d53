n = 3
while n:
    n -= 1
    if n == 1:
        continue
else:
    print("done", n)

# expect stdout:
# | done 0
