reply = await translate("hello", count="5")
print(reply["count"] + 1)

# expect stdout:
# | 6
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'translate' would do
