{"f": lambda: 1}

# expect value: {"f": "<function <lambda>>"}
