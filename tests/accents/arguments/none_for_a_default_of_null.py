reply = await translate(text="hello", lang=None)
print(reply)

# expect stdout:
# | {'text': 'hello', 'lang': None, 'count': 1, 'formal': False}
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'translate' would do
