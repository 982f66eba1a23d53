print("partial")
await add(1, 1)
print("more")
raise RuntimeError("stop")

# expect stdout:
# | partial
# | more
# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 4, in __main__
# |     raise RuntimeError("stop")
# | RuntimeError: stop
# expect calls: 1
