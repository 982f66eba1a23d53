query = """
    select name
      from users
     where team = 'core'
"""
[line.strip() for line in query.strip().splitlines()]

# topic: syntax
# expect value: ['select name', 'from users', "where team = 'core'"]
