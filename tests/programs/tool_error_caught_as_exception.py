try:
    await fail("anything")
except Exception as error:
    print("caught:", error)

# expect stdout:
# | caught: 'fail' failed: anything
# expect calls: 1
