#!/usr/bin/env python3
"""w7_text.py ROOT: prose that names what w7.txt renamed, and `as_item`, whose Args section rename.py cannot follow. Run after rename.py w7.txt; nothing breaks without it."""
import sys
from pathlib import Path
ROOT = Path(sys.argv[1])
I = 'src/toolfold/interfaces/'
A = I + 'frameworks/anthropic.py'
EDITS = [
    (I + 'prompts.py', '`known` adds what tools were seen to return', '`snapshot` adds what tools were seen to return'),
    (I + 'gem/tool.py', '`_checked` looks at it', '`_check_values` looks at it'),
    (A, 'def as_item(given: Any, what: str) -> Item:', 'def as_item(value: Any, subject: str) -> Item:'),
    (A, '        given: The model or dict.\n        what: What it is, for the error.\n', '        value: The model or dict.\n        subject: What it is, for the error.\n'),
    (A, '    if isinstance(given, Mapping):\n        return dict(given)\n    if hasattr(given, "model_dump"):\n        return dict(given.model_dump(',
     '    if isinstance(value, Mapping):\n        return dict(value)\n    if hasattr(value, "model_dump"):\n        return dict(value.model_dump('),
    (A, '{what} is an object of the SDK or a dict, got {type(given).__name__!r}', '{subject} is an object of the SDK or a dict, got {type(value).__name__!r}'),
]
bad = 0
for path, old, new in EDITS:
    file = ROOT / path; text = file.read_text()
    if text.count(old) != 1: print(f'{path}: {text.count(old)} times: {old[:60]!r}'); bad = 1; continue
    file.write_text(text.replace(old, new))
sys.exit(bad)
