class Thing:
    pass


{"rows": [1, Thing()]}

# expect problem: value: value['rows'][1] is a 'Thing', which cannot be sent; make it JSON values or bytes first
