#!/usr/bin/env python3
"""w4_text.py ROOT: docstrings and comments that name what w4.txt renamed. Run after rename.py w4.txt."""
import sys
from pathlib import Path
ROOT = Path(sys.argv[1])
E, G = 'src/toolfold/engines/', 'src/toolfold_guest/'
EDITS = [
    (E + 'base.py', 'yields `Taped`;', 'yields `ReplayTape`;'),
    (E + 'ray/wire.py', '"""`Taped`."""', '"""`ReplayTape`."""'),
    (E + 'ray/wire.py', '# `Taped.clocks` says', '# `ReplayTape.clocks` says'),
    (E + 'ray/cluster.py', 'As in `OwnTools`;', 'As in `EngineTools`;'),
    (E + 'process/engine.py', '        kept: The guests of sessions.', '        session_guests: The idle guests of sessions.'),
    (E + 'monty/calls.py', 'The next call of a program that has `made` so many.', 'The next call of a program that has made `call_count` calls.'),
    (G + 'jail/kernel.py', '`taken` are the descriptors', '`open_fds` are the descriptors'),
    (G + 'calls/messages.py', '`seen` is -1', '`replies_seen` is -1'),
    (G + 'program/values.py', '`what` starts the path', '`path` starts the path'),
]
bad = 0
for path, old, new in EDITS:
    file = ROOT / path; text = file.read_text()
    if old not in text: print('not found', path, old); bad += 1; continue
    file.write_text(text.replace(old, new))
sys.exit(bool(bad))
