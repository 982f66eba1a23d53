from pathlib import Path

Path("out.json").write_text('{"a": 1}')
print(sorted(path.name for path in Path(".").iterdir()))

# expect stdout:
# | ['out.json']
# expect files: out.json
