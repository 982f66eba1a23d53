class Table:
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]

    def __contains__(self, name):
        return any(row["name"] == name for row in self.rows)

    def __iter__(self):
        return iter(self.rows)

table = Table(await get_users())
[len(table), table[0]["name"], "Bo" in table, [row["id"] for row in table]]

# topic: classes
# expect value: [3, 'Ada', True, ['u1', 'u2', 'u3']]
