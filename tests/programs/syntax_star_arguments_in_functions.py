def show(first, *rest, sep="-", **more):
    return sep.join([first, *rest, *sorted(more)])


print(show("a", "b", "c", sep="+", z=1, y=2))

# expect stdout:
# | a+b+c+y+z
