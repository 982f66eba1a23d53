attempts = 0
while True:
    attempts += 1
    try:
        row = await flaky(3)
        break
    except ToolError as error:
        print(f"attempt {attempts}: {error}")
print(row, attempts)

# expect stdout:
# | attempt 1: 'flaky' failed: try later
# | attempt 2: 'flaky' failed: try later
# | done 3
# expect calls: 3
