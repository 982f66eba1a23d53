save_profile({"name": "Ada"})
print("saved")

# expect stdout:
# | saved
# expect calls: 1
