import textwrap

print(textwrap.dedent("""
    one
      two
""").strip())

# expect stdout:
# | one
# |   two
# limits: monty
