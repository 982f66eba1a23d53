print(translate("hello", None, 2))

# expect stdout:
# | {'text': 'hello', 'lang': None, 'count': 2, 'formal': False}
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'translate' would do
