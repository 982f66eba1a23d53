import sqlite3

db = sqlite3.connect(":memory:")
db.execute("create table users (id text, name text, team text)")
db.executemany("insert into users values (:id, :name, :team)", await get_users())
db.execute("select team, count(*) from users group by team order by team").fetchall()

# topic: modules
# expect value: [['core', 2], ['web', 1]]
