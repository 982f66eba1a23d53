await save_profile({"a": 1}, overwrite=true)

# expect rejected: line 1: 'true' is not defined; write True
