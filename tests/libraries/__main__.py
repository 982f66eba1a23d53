"""Real packages from the index that pip is set to: `python -m tests.libraries`, or `make test NAME=libraries`.

Installs them afresh with `toolfold libraries sync`, imports them in programs, and runs every attack of `tests/escapes`
in guests that have them loaded. Prints NOT RUN where the index cannot be reached. Exit 1: something failed.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.sets import measure
from tests.escapes_support.attack import load_attacks
from tests.escapes_support.corpus import Corpus
from toolfold import Runtime
from toolfold.config import load_config
from toolfold.config.library_sets import library_sets
from toolfold.engines.process.zygote_launch import NAMESPACE
from toolfold.libraries import LibraryStore
from toolfold.libraries.install import UNREACHABLE
from toolfold.models import InstalledSet

PACKAGES: Final = ("openpyxl", "networkx", "pyarrow", "lxml", "pillow", "sympy")
PRELOAD: Final = ("openpyxl", "networkx", "pyarrow.parquet", "lxml.etree", "PIL.Image", "sympy")
PROGRAMS: Final = {
    "openpyxl": "import openpyxl\nb = openpyxl.Workbook()\nb.active['A1'] = 7\nb.save('b.xlsx')\nopenpyxl.load_workbook('b.xlsx').active['A1'].value",
    "networkx": "import networkx\nnetworkx.shortest_path(networkx.path_graph(4), 0, 3)",
    "pyarrow": "pd.DataFrame({'a': [1, 2]}).to_parquet('a.parquet')\npd.read_parquet('a.parquet')['a'].sum()",
    "lxml": "from lxml import etree\netree.fromstring('<a><b>7</b></a>').findtext('b')",
    "pillow": "from PIL import Image\nImage.new('RGB', (2, 3)).rotate(90, expand=True).size",
    "sympy": "import sympy\nstr(sympy.integrate('x**2'))",
    "all of them": "import networkx, openpyxl, pandas, pyarrow.dataset, sympy\nfrom lxml import etree\nfrom PIL import Image\n"
    "pandas.DataFrame({'a': [1]}).to_parquet('a.parquet')\npyarrow.dataset.dataset('a.parquet').to_table().num_rows",
}
EXPECTED: Final = {
    "openpyxl": 7, "networkx": [0, 1, 2, 3], "pyarrow": 3, "lxml": "7", "pillow": [3, 2], "sympy": "x**3/3", "all of them": 1,
}  # fmt: skip
_PAIRS: Final = 12


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="toolfold-libraries-") as folder:
        os.chmod(folder, 0o755)  # the guest is another user
        path = Path(folder, "toolfold.yaml")
        path.write_text(f"libraries: {{packages: [{', '.join(PACKAGES)}]}}\n", "utf-8")
        data = Path(folder, "data")
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "toolfold", "libraries", "sync", "--config", str(path)],
            env={**os.environ, "XDG_DATA_HOME": str(data)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        print(f"sync took {time.perf_counter() - began:.0f} s: {(done.stdout or done.stderr).strip()}")
        if done.returncode:
            if UNREACHABLE in done.stderr:
                print("NOT RUN: the package index cannot be reached")
                return 0
            return 1
        sets = library_sets(load_config(path), LibraryStore(data / "toolfold" / "libraries"))
        failed = asyncio.run(_all(sets))
        # Of programs that use no package; nothing fails by it, for the machine may be busy.
        measure(sets, _PAIRS)
        return 1 if failed else 0


async def _all(sets: Sequence[InstalledSet]) -> int:
    failed = 0
    for isolation in ("namespace", "landlock"):
        failed += await _programs(sets, isolation)
    failed += await _attacks([replace(one, preload=PRELOAD) for one in sets])
    return failed


async def _programs(sets: Sequence[InstalledSet], isolation: str) -> int:
    failed = 0
    options = {"library_sets": sets, "isolation": isolation}
    async with Runtime(engine="process", engine_options=options) as runtime:
        for name, text in PROGRAMS.items():
            outcome = await runtime.run(text)
            is_good = outcome.value == EXPECTED[name]
            failed += not is_good
            said = "ok" if is_good else f"FAILED: {outcome.problem or outcome.value!r}"
            print(f"{isolation:<10} {name:<12} {outcome.seconds * 1000:7.0f} ms  {said}")
    return failed


async def _attacks(sets: Sequence[InstalledSet]) -> int:
    attacks = load_attacks()
    async with Corpus(library_sets=sets) as corpus:
        reached = []
        for attack in attacks:
            seen = await corpus.attack(attack, NAMESPACE)
            if seen.reaches(attack):
                reached.append(f"{attack.name}: reached its aim")
            elif seen.error or seen.is_alive:
                reached.append(f"{attack.name}: {seen.error or 'left a process behind'}")
    print(f"attacks with {', '.join(PRELOAD)} loaded: {len(attacks) - len(reached)} of {len(attacks)} held")
    for line in reached:
        print(f"  FAILED {line}")
    return len(reached)


if __name__ == "__main__":
    sys.exit(main())
