try:
    await fail("named")
except Exception as error:
    print(type(error).__name__)

# expect stdout:
# | ToolError
# expect calls: 1
# limits: monty
