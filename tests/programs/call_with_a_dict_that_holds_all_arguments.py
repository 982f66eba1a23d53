saved = await save_profile({"profile": {"name": "Ada"}, "overwrite": True})
saved

# expect value: {'profile': {'name': 'Ada'}, 'overwrite': True}
# expect calls: 1
