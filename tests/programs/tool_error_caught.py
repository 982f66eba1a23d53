try:
    await fail("try again")
except ToolError as error:
    print("caught:", error)

# expect stdout:
# | caught: 'fail' failed: try again
# expect calls: 1
