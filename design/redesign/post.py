"""After fold.py: data files, test folders, project files."""
import re, subprocess, sys, os
from pathlib import Path
os.chdir(sys.argv[1])
def sh(c): subprocess.run(c, shell=True, check=True)
if Path('src/toolfold/interfaces/console/static').exists():
    sh('mkdir -p src/toolfold/interfaces/console && mv src/toolfold/interfaces/console/static src/toolfold/interfaces/console/static && rm -rf src/toolfold/interfaces')
if Path('tests/interfaces').exists(): sh('mv tests/interfaces tests/interfaces')
MOVES = {
 'tests/ledger/test_redis.py':'tests/ledger/redis/test_store.py','tests/ledger/test_redis_index.py':'tests/ledger/redis/test_index.py',
 'tests/ledger/test_redis_lease.py':'tests/ledger/redis/test_leases.py','tests/ledger/test_redis_writer.py':'tests/ledger/redis/test_writer.py',
 'tests/ledger/test_sqlite.py':'tests/ledger/sqlite/test_store.py','tests/ledger/test_sqlite_processes.py':'tests/ledger/sqlite/test_processes.py',
 'tests/ledger/test_ahead.py':'tests/ledger/sqlite/test_write_ahead.py','tests/ledger/test_changes.py':'tests/ledger/sqlite/test_changes.py',
 'tests/ledger/test_migrations.py':'tests/ledger/sqlite/test_migrations.py','tests/ledger/test_observe.py':'tests/telemetry/test_log.py','tests/ledger/test_otel.py':'tests/telemetry/test_otel.py',
}
# only moves that need no change in relative paths are made; see below
text_ext = {'.py','.md','.toml','.yml','.yaml','.ipynb','.sh','.mjs','.js','.json','.txt',''}
files = subprocess.run(['git','ls-files','-co','--exclude-standard'],capture_output=True,text=True).stdout.split('\n')
for rel in files:
    p = Path(rel)
    if not rel or p.suffix not in text_ext or not p.is_file() or rel.startswith(('CHANGELOG','requirements/','bench/peers/requirements')): continue
    try: t = p.read_text()
    except UnicodeDecodeError: continue
    u = re.sub(r'\btests([./])doors\b', r'tests\1interfaces', t)
    u = re.sub(r'src/toolfold/interfaces\b', 'src/toolfold/interfaces', u)
    u = re.sub(r'\btoolfold([./])doors\b', r'toolfold\1interfaces', u)
    u = re.sub(r'`interfaces/', '`interfaces/', u)
    if u != t: p.write_text(u)
p = Path('pyproject.toml'); t = p.read_text()
t = t.replace('''  "doors | (testing)",''','''  "interfaces | (testing)",''')
t = t.replace('''  "engines | sources | ledger",
  "tools",
  "program | protocol",
  "events",
  "models",
  "outcome_views",
  "forks",
''','''  "engines | sources | ledger",
  "telemetry",
  "tools",
  "program | protocol",
  "prompts",
  "events",
  "models",
  "display",
  "fork_safety",
''')
t = t.replace('name = "doors use the runtime','name = "interfaces use the runtime').replace('"T20",     # this door prints','"T20",     # this interface prints')
p.write_text(t)
# too long comment lines made from docstrings
for p in list(Path('src').rglob('*.py')):
    t = p.read_text(); out = []
    for l in t.split('\n'):
        if len(l) > 120 and l.startswith('# '):
            cut = l.rfind(' ', 0, 120); out += [l[:cut], '# ' + l[cut+1:]]
        else: out.append(l)
    if '\n'.join(out) != t: p.write_text('\n'.join(out))
def sub(path, a, b):
    p = Path(path); t = p.read_text()
    if a not in t: print('post: not in', path, ':', a[:60]); return
    p.write_text(t.replace(a, b))
sub('src/toolfold_guest/program/termination.py','_OURS = os.path.dirname(os.path.dirname(__file__))','_OURS = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))')
t = Path('pyproject.toml').read_text()
t = t.replace('''  "sessions | checking | (libraries)",
  "engines | sources | ledger",
  "telemetry",
''','''  "sessions | checking | (libraries)",
  "telemetry",
  "engines | sources | ledger",
''')
if 'shared with the guest' not in t:
    t = t.replace('''[[tool.importlinter.contracts]]
name = "the guest needs the standard library only"''','''[[tool.importlinter.contracts]]
name = "the host imports only what is shared with the guest"
type = "forbidden"
source_modules = ["toolfold"]
forbidden_modules = [
  "toolfold_guest.calls", "toolfold_guest.describe", "toolfold_guest.jail", "toolfold_guest.main", "toolfold_guest.preload",
  "toolfold_guest.program", "toolfold_guest.stdlib", "toolfold_guest.zygote",
]
allow_indirect_imports = true

[[tool.importlinter.contracts]]
name = "the guest needs the standard library only"''')
Path('pyproject.toml').write_text(t)
sub('src/toolfold/tools/values.py','''`toolfold_guest.shared.value_rules.TABLE` says what becomes what, for replies as for what programs send, and `toolfold_guest.shared.value_rules`
how much of it; a float NaN or infinity stays a float here.''','''`toolfold_guest.shared.value_rules` says what becomes what, for replies as for what programs send, and how much of it; a
float NaN or infinity stays a float here.''')
sub('src/toolfold/program/reader_facts.py','''        for field in fields_of(node.__class__):
            value = getattr(node, field, None)''','''        for name in fields_of(node.__class__):
            value = getattr(node, name, None)''')
p = Path('src/toolfold/interfaces/http/openapi.py'); t = p.read_text()
t = t.replace('''        yield f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>{_json_page(schema)}</details>"''','''        summary = f"<summary><code>{escape(name)}</code></summary>"
        yield f"<details id='{escape(name)}'>{summary}{_json_page(schema)}</details>"''')
p.write_text(t)
