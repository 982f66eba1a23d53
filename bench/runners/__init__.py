"""Who runs the programs. A peer is one small file here and one line in `RUNNERS`."""

from bench.runners.base import CannotDo, Runner
from bench.runners.in_process import InProcess
from bench.runners.monty import Monty
from bench.runners.subprocess import Subprocess
from bench.runners.toolfold import Toolfold, ToolfoldCold, ToolfoldData, ToolfoldWasm

FLOOR = InProcess.name
OURS = Toolfold.name
WASM = ToolfoldWasm.name

RUNNERS: tuple[type[Runner], ...] = (InProcess, Toolfold, ToolfoldCold, ToolfoldData, ToolfoldWasm, Subprocess, Monty)

__all__ = ["FLOOR", "OURS", "RUNNERS", "WASM", "CannotDo", "Runner"]
