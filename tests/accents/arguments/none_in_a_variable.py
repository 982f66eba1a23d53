lang = None
options = {"lang": lang, "count": "3"}
print(await translate("hello", **options))

# expect stdout:
# | {'text': 'hello', 'lang': None, 'count': 3, 'formal': False}
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'translate' would do
