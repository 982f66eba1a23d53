from pathlib import Path

[Path("/mnt/data/a.csv")]

# expect value: ['/mnt/data/a.csv']
