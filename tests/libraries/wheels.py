"""Small wheels and source distributions, made on the spot: no test needs a registry."""

import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, str] | None = None,
    requires: Sequence[str] = (),
) -> Path:
    """A pure wheel; by default one module with its version."""
    files = {f"{name}.py": f"VERSION = {version!r}\n"} if files is None else files
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    texts = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    texts[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*texts, f"{info}/RECORD"])
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in texts.items():
            archive.writestr(place, text)
    return path


def make_source(folder: Path, name: str, version: str = "1.0") -> Path:
    """A source distribution that leaves a mark if anybody builds it."""
    setup = f"open({str(folder / 'built')!r}, 'w').close()\nfrom setuptools import setup\nsetup(name={name!r}, version={version!r})\n"
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for place, text in {
            "setup.py": setup,
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        }.items():
            member = tarfile.TarInfo(f"{name}-{version}/{place}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path
