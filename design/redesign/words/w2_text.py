#!/usr/bin/env python3
"""w2_text.py ROOT: prose and test strings that name what w2.txt renamed, and wraps of `# fmt: skip` lines. Run after rename.py w2.txt (any order with the others)."""
import sys
from pathlib import Path
ROOT = Path(sys.argv[1])
X, T = 'src/toolfold/execution/', 'src/toolfold/tools/'
W = 'design/walk.md'
EDITS = [
    (W, 'what the caller wants becomes a `Wish`', 'what the caller wants becomes a `RunRequest`'),
    (W, '`Beginning.plan` | a guest is told to expect the text; a `Plan` comes out', '`ExecutionPlanner.plan` | a guest is told to expect the text; an `ExecutionPlan` comes out'),
    (W, '`Calls.serve`', '`ExecutionCalls.serve`'),
    (W, '`Calls._serve`', '`ExecutionCalls._serve`'),
    (W, '`Calls._answer`', '`ExecutionCalls._answer`'),
    (W, '`Breaking.wrap.', '`BreakerStep.wrap.'),
    (W, '`Retrying.wrap.', '`RetryStep.wrap.'),
    ('CONTRIBUTING.md', 'from `Clock`. Test it with', 'from `StepClock`. Test it with'),
    (X + 'start.py', '# Any: the other fields of `Plan`.', '# Any: the other fields of `ExecutionPlan`.'),
    (X + 'execution.py', '"""Set by `opened`; until then', '"""Set by `attach`; until then'),
    (X + 'request.py', 'otherwise only those in `asked` do', 'otherwise only `approval_tools` do'),
    ('src/toolfold/interfaces/http/rewards.py', '"""For `mapped`."""', '"""For `map_programs`."""'),
    (T + 'search_vocabulary.py', 'those of `known` where it is the same tool', 'those of `previous` where it is the same tool'),
    (T + 'search.py', '`Meanings` share what it said among indexes.', 'an `EmbeddingCache` is shared among indexes.'),
    ('src/toolfold/libraries/install.py', '        wanted: In the order in which', '        requested_sets: In the order in which'),
    ('tests/libraries/test_sync.py', 'from toolfold.libraries import Installed\nwith Installed(', 'from toolfold.libraries import LibraryStore\nwith LibraryStore('),
    ('tests/ledger/test_otel.py', '"_given"', '"_provider"'),
    ('src/toolfold/telemetry/otel.py', '("_get", "_provider", "_name", "_names")', '("_get", "_name", "_names", "_provider")'),
    # `Runtime.start` has overloads, which rename.py takes for it
    ('src/toolfold/runtime.py', '        wish = RunRequest(', '        request = RunRequest('),
    ('src/toolfold/runtime.py', 'self._begin(text, wish)', 'self._begin(text, request)'),
    # `# fmt: skip`: wrapped by hand
    (X + 'calls.py', 'record: ExecutionRecord, accounts: Accounts, clock: WallClock,\n        look_again', 'record: ExecutionRecord, accounts: Accounts,\n        clock: WallClock, look_again'),
    (X + 'pause.py', 'calls: ExecutionCalls, clock: WallClock,\n        output', 'calls: ExecutionCalls,\n        clock: WallClock, output'),
    (X + 'start.py', 'saved_files=saved_files, outputs=outputs, door=self.services.door\n', 'saved_files=saved_files, outputs=outputs,\n            door=self.services.door,\n'),
    (X + 'start.py', 'can_pause=request.can_pause, on_call=request.on_call,\n            rerun=rerun', 'can_pause=request.can_pause,\n            on_call=request.on_call, rerun=rerun'),
]
bad = 0
for path, old, new in EDITS:
    file = ROOT / path; text = file.read_text()
    if old not in text:
        bad = 1; print(f'not found in {path}: {old!r}'); continue
    file.write_text(text.replace(old, new))
print(f'{len(EDITS)} edits'); sys.exit(bad)
