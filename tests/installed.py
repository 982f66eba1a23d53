"""Distributions as an installer leaves them on the path, without an installer."""

import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path

TOY = Path(__file__).parents[1] / "examples" / "engine"


def write_metadata(folder: Path, distribution: str, *entries: str) -> None:
    """A distribution that registers these engines."""
    metadata = folder / f"{distribution}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[toolfold.engines]\n" + "\n".join(entries) + "\n")


@contextmanager
def toy_engine(folder: Path) -> Iterator[None]:
    """The engine of `examples/engine`, installed in an empty folder, with the entry points of its own project file."""
    project = tomllib.loads((TOY / "pyproject.toml").read_text())["project"]
    entries = project["entry-points"]["toolfold.engines"]
    write_metadata(folder, project["name"], *(f"{name} = {place}" for name, place in entries.items()))
    path = [str(folder), str(TOY)]
    sys.path[:0] = path
    invalidate_caches()
    try:
        yield
    finally:
        for one in path:
            sys.path.remove(one)
