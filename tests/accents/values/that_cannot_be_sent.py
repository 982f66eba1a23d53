class Thing:
    pass


{"rows": [1, Thing()]}

# expect value: {"rows": [1, "<Thing object>"]}
# expect hints:
# | value['rows'][1] is a 'Thing', which has no JSON form; its text was sent
