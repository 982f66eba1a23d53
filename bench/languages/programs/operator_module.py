from operator import attrgetter, itemgetter

users = sorted(await get_users(), key=itemgetter("team", "name"))
[[user["name"] for user in users], attrgetter("real")(3)]

# topic: modules
# expect value: [['Ada', 'Cy', 'Bo'], 3]
