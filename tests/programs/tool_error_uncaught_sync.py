def order():
    return tools.fail("closed")


order()

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 5, in __main__
# |     order()
# |   File "<program>", line 2, in order
# |     return tools.fail("closed")
# | ToolError: 'fail' failed: closed
# expect calls: 1
