try:
    await fail(message="no stock")
    answer = "went on"
except Exception as error:
    answer = "no stock" in str(error)
answer

# topic: calls
# expect value: True
