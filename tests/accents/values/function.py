{"f": lambda: 1}

# expect value: {"f": "<function <lambda>>"}
# expect hints:
# | value['f'] is a 'function', which has no JSON form; its text was sent
