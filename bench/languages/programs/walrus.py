if (count := len(await get_users())) > 2:
    answer = f"{count} users"
[answer, [half for n in range(6) if (half := n / 2) > 1]]

# topic: syntax
# expect value: ['3 users', [1.5, 2.0, 2.5]]
