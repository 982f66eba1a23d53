import weakref


class Thing:
    pass


thing = Thing()
weakref.finalize(thing, print, "finalized")
print("body")

# expect stdout:
# | body
# | finalized
# limits: monty
