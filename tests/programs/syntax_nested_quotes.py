rows = [{"name": "it's"}, {"name": 'say "hi"'}]
print(", ".join(f"<{row['name']}>" for row in rows))

# expect stdout:
# | <it's>, <say "hi">
