import re

print(re.findall(r"(\w)=(\d)", "a=1 b=2"), re.split(r"[,;]\s*", "a, b;c"))
found = re.search(r"(?P<year>\d{4})-(\d\d)", "on 2024-03-01")
print(found.group("year"), found.groups(), found.span())

# expect stdout:
# | [('a', '1'), ('b', '2')] ['a', 'b', 'c']
# | 2024 ('2024', '03') (3, 10)
