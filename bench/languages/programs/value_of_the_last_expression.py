{"users": [user["name"] for user in await get_users()], "count": 3}

# topic: output
# expect value: {'users': ['Ada', 'Bo', 'Cy'], 'count': 3}
