saved = await save_profile({"name": "Ada", "team": "core"})
saved

# expect value: {'profile': {'name': 'Ada', 'team': 'core'}, 'overwrite': False}
# expect calls: 1
