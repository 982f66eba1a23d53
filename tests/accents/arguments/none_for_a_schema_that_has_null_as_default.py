lang = None
print(lookup("cat", None), lookup(word="cat", lang=lang), (await lookup({"word": "cat", "lang": None}))["lang"])

# expect stdout:
# | {'word': 'cat', 'lang': None} {'word': 'cat', 'lang': None} None
# expect calls: 3
