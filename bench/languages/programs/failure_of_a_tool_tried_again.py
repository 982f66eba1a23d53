attempts = []
for number in range(3):
    try:
        await fail(message=f"attempt {number}")
    except Exception:
        attempts.append(number)
attempts

# topic: calls
# expect value: [0, 1, 2]
