if (count := len(await get_users())) > 2:
    print(count)

# expect stdout:
# | 3
# expect calls: 1
