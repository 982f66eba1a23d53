from pathlib import Path

folder = Path("reports")
folder.mkdir(exist_ok=True)
(folder / "one.txt").write_text("one")
(folder / "two.md").write_text("two")
[sorted(path.name for path in folder.iterdir()), (folder / "one.txt").read_text(), (folder / "two.md").suffix]

# topic: files
# expect value: [['one.txt', 'two.md'], 'one', '.md']
