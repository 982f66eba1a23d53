reply = await translate("hello", count=4.0)
print(reply["count"], type(reply["count"]).__name__)

# expect stdout:
# | 4 int
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'translate' would do
