from enum import Enum

class Team(Enum):
    CORE = "core"
    WEB = "web"

[user["name"] for user in await get_users() if Team(user["team"]) is Team.CORE]

# topic: classes
# expect value: ['Ada', 'Cy']
