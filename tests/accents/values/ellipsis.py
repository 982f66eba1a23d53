...

# expect value: "Ellipsis"
# expect hints:
# | value is a 'ellipsis', which has no JSON form; its text was sent
