def pick(rows):
    return rows[0]["nope"]


rows = await get_users()
print("got", len(rows))
pick(rows)

# expect stdout:
# | got 3
# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 7, in __main__
# |     pick(rows)
# |   File "<program>", line 2, in pick
# |     return rows[0]["nope"]
# | KeyError: 'nope'
# expect calls: 1
