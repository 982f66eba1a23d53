"""The real clients of verl and SandboxFusion against `POST /run_code`: `python tests/clients/rewards SERVER_PYTHON`.

Runs in the environment that `make test NAME=rewards` makes for them; the server runs in that of SERVER_PYTHON.
Prints a line for each client. Exit 1: a verdict is wrong.
"""

import asyncio
import base64
import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONFIG = "http: {keys: {trainer: test-key}, port: 0, files: files, starts_per_minute: 60000}\nledger: {where: memory}\n"
METHOD = "class Solution:\n    def total(self, a, b):\n        return [a + b]\n"
VERDICTS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "input": ("print(sum(map(int, input().split())))", {"inputs": ["1 2", "3 4"], "outputs": ["3", "8"]}, [True, False]),
    "stdin": ("import sys\nprint(sys.stdin.read().upper())", {"inputs": ["a\nb\n"], "outputs": ["A\nB\n"]}, [True]),
    "function": (METHOD, {"inputs": ["1\n2"], "outputs": ["[3]"], "fn_name": "total"}, [True]),
    "assert": ("def f(x): return x", {"inputs": [""], "outputs": [None], "assert_case": ["assert f(1) == 1"]}, [True]),
    "wrong assert": ("def f(x): return 2", {"inputs": [""], "outputs": [None], "assert_case": ["assert f(1) == 1"]}, [-2]),
    "raises": ("1 / 0", {"inputs": [""], "outputs": [""]}, [-2]),
    "syntax": ("print(", {"inputs": [""], "outputs": [""]}, [-2]),
    "endless": ("while True: pass", {"inputs": [""], "outputs": [""]}, [-3]),
}  # fmt: skip


def main(server_python: str) -> int:
    with tempfile.TemporaryDirectory() as folder, serve(server_python, Path(folder)) as port:
        # Both clients can be told nothing but an address, so that the key is a part of it.
        base = f"http://trainer:test-key@127.0.0.1:{port}"
        return max(with_verl(f"{base}/run_code"), with_sandbox_fusion(base))


def with_verl(url: str) -> int:
    """Its reward function as it is, without the package around it, which would load torch."""
    package = _loaded("verl_rewards", "verl/utils/reward_score/sandbox_fusion/__init__.py")
    check, turns = package.check_correctness, threading.Semaphore(4)
    found = {
        name: check(url, in_outs, text, timeout=2 if name == "endless" else 10, concurrent_semaphore=turns)[0]
        for name, (text, in_outs, _) in VERDICTS.items()
    }
    answer, tests = "```python\nprint(int(input()) * 2)\n```", {"inputs": ["1", "2", "3"], "outputs": ["2", "4", "7"]}
    score, _ = package.compute_score(url, turns, 512, answer, tests)
    wrong = {name: one for name, one in found.items() if one != VERDICTS[name][2]}
    print(
        f"verl 0.9.1: {len(found) - len(wrong)} of {len(found)} verdicts right, score {score:.3f} of 0.667 {wrong or ''}"
    )
    return int(bool(wrong) or abs(score - 2 / 3) > 1e-9)


def with_sandbox_fusion(base: str) -> int:
    """The client package of the original, blocking and async."""
    # Only in the environment that was made for it.
    from sandbox_fusion import RunCodeRequest, run_code, run_code_async, set_endpoint

    set_endpoint(base)
    given = {"n.txt": base64.b64encode(b"5").decode()}
    text = "n = int(open('n.txt').read()) + int(input())\nopen('out.txt', 'w').write(str(n))\nprint(n)"
    request = RunCodeRequest(code=text, language="python", stdin="4", files=given, fetch_files=["out.txt"])
    one, two = run_code(request), asyncio.run(run_code_async(request))
    failed = run_code(RunCodeRequest(code="import sys\nsys.exit(3)", language="python"))
    said = [(one.status.value, one.run_result.stdout, base64.b64decode(one.files["out.txt"])) for one in (one, two)]
    is_right = said == [("Success", "9\n", b"9")] * 2 and failed.run_result.return_code == 3
    print(f"sandbox-fusion 0.3.7: {'blocking, async and failing program right' if is_right else said}")
    return int(not is_right)


def _loaded(name: str, path: str) -> Any:
    folder = next(Path(entry) for entry in sys.path if (Path(entry) / path).is_file())
    spec = importlib.util.spec_from_file_location(
        name, folder / path, submodule_search_locations=[str((folder / path).parent)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def serve(python: str, folder: Path) -> Iterator[int]:
    (folder / "toolfold.yaml").write_text(CONFIG, "utf-8")
    process = subprocess.Popen(
        [python, "-m", "toolfold", "serve", "--config", str(folder / "toolfold.yaml")],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "XDG_STATE_HOME": str(folder)},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                # Read on, so that the server never waits for this.
                threading.Thread(target=process.stderr.read, daemon=True).start()
                yield int(found[1])
                return
        raise SystemExit("the server did not start")
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
