picture = await take_picture()
print(picture.kind, picture.mime, len(picture.data))
picture

# expect stdout:
# | image image/png 4
# expect value: PICTURE
# expect calls: 1
