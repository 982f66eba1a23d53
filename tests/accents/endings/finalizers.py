class Thing:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("gone:", self.name)


one = Thing("one")
two = Thing("two")
two.me = two
print("body")

# expect stdout:
# | body
# | gone: one
# | gone: two
# limits: monty
