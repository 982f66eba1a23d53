try:
    try:
        await fail("not a key")
    except KeyError:
        print("wrong")
except ToolError:
    print("right")

# expect stdout:
# | right
# expect calls: 1
