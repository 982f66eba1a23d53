def names(users: List[Dict[str, str]], team: Optional[str] = None) -> List[str]:
    return [user["name"] for user in users if team in (None, user["team"])]


print(names(await get_users(), "core"))

# expect stdout:
# | ['Ada', 'Cy']
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'get_users' would do
