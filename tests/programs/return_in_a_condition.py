if len(await get_users()) == 3:
    return "three"
print("never printed")

# expect value: 'three'
# expect calls: 1
