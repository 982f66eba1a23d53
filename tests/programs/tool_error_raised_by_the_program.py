raise ToolError("mine")

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 1, in __main__
# |     raise ToolError("mine")
# | ToolError: mine
