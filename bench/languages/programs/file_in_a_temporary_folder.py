import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "data.json"
    path.write_text("{}")
    size = path.stat().st_size
size

# topic: files
# expect value: 2
