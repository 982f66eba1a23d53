{"f": lambda: 1}

# expect problem: value: value['f'] is a 'function', which cannot be sent; make it JSON values or bytes first
