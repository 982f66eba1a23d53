try:
    tools.fail("sync")
except ToolError as error:
    print("caught:", error)

# expect stdout:
# | caught: 'fail' failed: sync
# expect calls: 1
