from collections import ChainMap, OrderedDict

settings = ChainMap({"color": "red"}, {"color": "blue", "size": 3})
ordered = OrderedDict(a=1, b=2, c=3)
ordered.move_to_end("a")
[settings["color"], settings["size"], list(ordered)]

# topic: modules
# expect value: ['red', 3, ['b', 'c', 'a']]
