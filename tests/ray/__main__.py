"""`make test NAME=ray`: the contract of engines and all programs on three real Ray nodes, refusals, and nodes and a head that are lost.

With `--part` only every fourth program, as in `make test`. Says NOT RUN, loudly, where Ray is not installed and cannot be.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REQUIREMENTS = "requirements/ray.txt"
CONTRACT, PROGRAMS = "tests/contracts/test_engine_contract.py", "tests/test_programs.py"


def has_ray() -> bool:
    """Installed, maybe just now: its wheel takes 80 MB, and nothing that is pinned elsewhere changes with it."""
    if importlib.util.find_spec("ray") is None:
        print(f"installing {REQUIREMENTS} (once, 80 MB)", flush=True)
        command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-r", REQUIREMENTS]
        subprocess.run(command, check=False)
    return importlib.util.find_spec("ray") is not None


def suites(*, is_part: bool, arguments: list[str]) -> int:
    """The tests that every engine has to pass; `RAY_ADDRESS` leads to the cluster."""
    chosen = sorted(path.stem for path in Path("tests/programs").glob("*.py"))[:: 4 if is_part else 1]
    only = ["-k", " or ".join(["test_engine_contract", "test_each_limit", *(f"ray-{one}" for one in chosen)])]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", CONTRACT, PROGRAMS]
    return subprocess.run(
        [*command, *(only if is_part else []), *arguments], env={**os.environ, "ENGINES": "ray"}, check=False
    ).returncode


def main() -> int:
    if not has_ray():
        print("NOT RUN: the ray engine on a real cluster: Ray could not be installed; the lines above say why")
        return 0
    # Here, not at the top: Ray may just have been installed.
    from tests.ray import lost_nodes, refusals
    from tests.ray.three_nodes import three_nodes

    arguments = sys.argv[1:]
    is_part = "--part" in arguments
    os.environ["PYTHONPATH"] = os.pathsep.join(["src", "."])
    with tempfile.TemporaryDirectory(prefix="ray-leftovers-") as folder:
        # Whatever nodes leave behind is in there.
        os.chmod(folder, 0o755)
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        before = lost_nodes.zygotes()
        with three_nodes() as cluster:
            failed = suites(is_part=is_part, arguments=[one for one in arguments if one != "--part"])
            failed |= refusals.main(cluster)
            failed |= lost_nodes.main(cluster, folder, before)
    # In a process of its own: that Ray does not end it is what it shows.
    failed |= bool(subprocess.run([sys.executable, "-m", "tests.ray.lost_head"], check=False).returncode)
    return failed


if __name__ == "__main__":
    sys.exit(main())
