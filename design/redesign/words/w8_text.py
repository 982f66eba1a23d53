#!/usr/bin/env python3
"""w8_text.py ROOT: prose that names what w8.txt renamed (docs, docstrings), and one attribute that two classes of a file share. Run after rename.py w8.txt."""
import sys
from pathlib import Path
ROOT = Path(sys.argv[1])
I = 'src/toolfold/interfaces/'
EDITS = [
    ('docs/mcp.md', '`Door` is the server without', '`McpServer` is the server without'),
    ('docs/mcp.md', 'from toolfold.interfaces.mcp import Door\n', 'from toolfold.interfaces.mcp import McpServer\n'),
    ('docs/mcp.md', 'async with Door(runtime, Offer(runtime, local=[as_tool(price)])) as door, Client(door.server) as client:',
     'async with McpServer(runtime, Offer(runtime, local=[as_tool(price)])) as mcp, Client(mcp.server) as client:'),
    (I + 'mcp/transports.py', '        door: What is served, at `/mcp`.', '        mcp_server: What is served, at `/mcp`.'),
    (I + 'mcp/transports.py', '        door: What is served.', '        mcp_server: What is served.'),
    (I + 'callback/grants.py', '`taken` are identifiers of tools that the', '`reserved_names` are identifiers of tools that the'),
    (I + 'callback/programs.py', '`taken` are names of others.', '`reserved_names` are names of others.'),
    (I + 'callback/programs.py', 'none where `one` has an error then.', 'none where `entry` has an error then.'),
    (I + 'callback/server.py', 'A door opens `Executions` beside its runtime,', 'A server opens `CallbackExecutions` beside its runtime,'),
    (I + 'pydantic_ai/nested_calls.py', '`_answered` reads what it said', '`_apply_answer` reads what it said'),
    (I + 'pydantic_ai/nested_calls.py', 'Those of one home, by execution id.', 'Those of one `RuntimePool`, by execution id.'),
    (I + 'pydantic_ai/nested_calls.py', 'Nobody keeps the home open: their records are left.', 'Nobody keeps the pool open: their records are left.'),
    (I + 'pydantic_ai/runtime_pool.py', '(Pydantic AI makes one per run) have one home. It opens', '(Pydantic AI makes one per run) share one pool. It opens'),
    # `_made` was the list of the cache and a method of the pool; `attr` cannot tell them apart
    (I + 'pydantic_ai/runtime_pool.py', 'lambda key: self._made(state, key, step)', 'lambda key: self._build_runtime(state, key, step)'),
    (I + 'pydantic_ai/runtime_pool.py', 'def _made(self, state: _LoopState,', 'def _build_runtime(self, state: _LoopState,'),
    (I + 'pydantic_ai/runtime_pool.py', 'self._made', 'self._entries'),
]
bad = 0
for path, old, new in EDITS:
    file = ROOT / path; text = file.read_text()
    if old not in text:
        bad = 1; print(f'not found in {path}: {old!r}'); continue
    file.write_text(text.replace(old, new))
print(f'{len(EDITS)} edits'); sys.exit(bad)
