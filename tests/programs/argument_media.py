picture = await take_picture()
same = await echo(picture)
print(same.mime, same.data == picture.data)

# expect stdout:
# | image/png True
# expect calls: 2
