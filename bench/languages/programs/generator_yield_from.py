def walk(tree):
    yield tree["name"]
    for child in tree.get("children", []):
        yield from walk(child)

list(walk({"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}, {"name": "d"}]}))

# topic: functions
# expect value: ['a', 'b', 'c', 'd']
