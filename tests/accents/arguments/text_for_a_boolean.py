print((await translate("hello", formal="true"))["formal"], (await translate("hello", formal="false"))["formal"])

# expect stdout:
# | True False
# expect calls: 2
