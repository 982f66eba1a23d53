print("before")
if True:
    return
print("after")

# expect stdout:
# | before
