"""Places where no jail can be built: `make test NAME=no-jail` installs toolfold there with `wasm`, and runs a program.

One is a process under Docker's default profile, the other that of a user who may make no user namespaces. In each, pip
installs a wheel of this tree in a fresh environment, and `toolfold run` gets no flag.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "no-jail"
CACHE = ROOT / "build" / "wasm-cache"
PROGRAM = "import pandas\nprint(pandas.DataFrame({'a': [1, 2], 'b': [20, 22]}).b.sum())"
RUN_COMMAND = "import os, sys; os.environ.pop('PYTHONPATH'); os.execvp(sys.argv[1], sys.argv[1:])"
WITHOUT_NAMESPACES = (
    'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
)


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", FOLDER, ROOT], check=True)
    [wheel] = FOLDER.glob("*.whl")
    return max(_try_place(name, command, wheel) for name, command in _places().items())


def _places() -> dict[str, list[str]]:
    """What starts a command in each of them."""
    profile = json.loads((ROOT / "deploy" / "seccomp.json").read_text(encoding="utf-8"))
    profile["syscalls"] = [rule for rule in profile["syscalls"] if not rule["comment"].startswith("the jail:")]
    file = FOLDER / "profile.json"
    file.write_text(json.dumps(profile), encoding="utf-8")
    confine = [sys.executable, str(ROOT / "tests/deploy_support/confine.py"), str(file), "-c", RUN_COMMAND]
    return {
        "under Docker's default profile": confine,
        "without user namespaces": ["unshare", "--user", "--map-root-user", "sh", "-c", WITHOUT_NAMESPACES, "sh"],
    }


def _try_place(name: str, place: list[str], wheel: Path) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TOOLFOLD_WASM_CACHE": str(CACHE)}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        # Nothing of this tree is on the path of what runs there.
        env = environment if place[0] == sys.executable else {**environment, "PYTHONPATH": ""}
        return subprocess.run([*place, *command], cwd=FOLDER, env=env, capture_output=True, text=True, check=False)

    if run("true").returncode:
        print(f"NOT RUN {name}: this machine cannot make such a place: {run('true').stderr.strip()[-200:]}")
        return 0
    if run("unshare", "--user", "true").returncode == 0:
        print(f"FAILED {name}: a user namespace can be made there, so this shows nothing")
        return 1
    virtual = FOLDER / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--clear", virtual], check=True)
    python = str(virtual / "bin" / "python")
    for command in (
        (python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", f"toolfold[wasm] @ {wheel.as_uri()}"),
        (python, "-m", "toolfold", "run", "-c", PROGRAM, "--json"),
    ):
        done = run(*command)
        if done.returncode:
            print(f"FAILED {name}: {' '.join(command[2:5])}: {(done.stderr or done.stdout).strip()[-600:]}")
            return 1
    outcome = json.loads(done.stdout)
    notes = [hint for hint in outcome["hints"] if "wasm engine" in hint]
    if (outcome["stdout"], outcome["engine"]) != ("42\n", "wasm") or not notes:
        print(f"FAILED {name}: {done.stdout} {done.stderr}")
        return 1
    print(f"{name}: pip install 'toolfold[wasm]', toolfold run: engine {outcome['engine']}; {notes[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
