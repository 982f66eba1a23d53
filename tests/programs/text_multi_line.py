text = """one
  two
    three
"""
print(text, end="")

# expect stdout:
# | one
# |   two
# |     three
