print(json.dumps([1]), math.floor(2.5), re.sub("a", "b", "aa"))

# expect stdout:
# | [1] 2 bb
