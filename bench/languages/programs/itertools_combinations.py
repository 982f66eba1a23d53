from itertools import combinations, count, product, zip_longest

[["".join(pair) for pair in combinations("abc", 2)], len(list(product([0, 1], repeat=3))), next(n for n in count(10) if n % 7 == 0), [list(row) for row in zip_longest([1, 2], [3], fillvalue=0)]]

# topic: modules
# expect value: [['ab', 'ac', 'bc'], 8, 14, [[1, 3], [2, 0]]]
