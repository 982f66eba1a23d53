from enum import Enum


class Team(Enum):
    CORE = "core"
    WEB = "web"


print([user["name"] for user in await get_users() if Team(user["team"]) is Team.CORE])

# expect stdout:
# | ['Ada', 'Cy']
# expect calls: 1
# limits: monty
