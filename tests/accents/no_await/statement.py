save_profile({"name": "Ada"})
print("saved")

# expect stdout:
# | saved
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'save_profile' would do
