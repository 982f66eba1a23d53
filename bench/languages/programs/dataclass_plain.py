from dataclasses import dataclass

@dataclass
class User:
    id: str
    name: str
    team: str

users = [User(**row) for row in await get_users()]
[user.name for user in users if user.team == "core"]

# topic: classes
# expect value: ['Ada', 'Cy']
