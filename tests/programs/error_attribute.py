"text".shout()

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 1, in __main__
# |     "text".shout()
# | AttributeError: 'str' object has no attribute 'shout'
