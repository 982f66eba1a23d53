reply = await translate(text="hello", formal=1)
print(reply["formal"])

# expect stdout:
# | True
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'translate' would do
