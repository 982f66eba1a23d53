print("before")
await fail("out of stock")
print("after")

# expect stdout:
# | before
# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 2, in __main__
# |     await fail("out of stock")
# | ToolError: 'fail' failed: out of stock
# expect calls: 1
