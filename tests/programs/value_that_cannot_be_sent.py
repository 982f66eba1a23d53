class Thing:
    pass


{"rows": [1, Thing()]}

# expect value: {"rows": [1, "<Thing object>"]}
