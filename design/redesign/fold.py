"""Fold modules by a map: fold.py ROOT MAPFILE [--apply] [--only PREFIX ...]"""
import ast, sys, os, re, subprocess, builtins, json
from collections import defaultdict
from pathlib import Path

ROOT = Path(sys.argv[1]); MAPFILE = Path(sys.argv[2])
APPLY = '--apply' in sys.argv
ONLY = [a[7:] for a in sys.argv if a.startswith('--only=')]
SRC = ROOT / 'src'

def read_map():
    """new dotted -> [old dotted]"""
    out = {}
    for line in MAPFILE.read_text().splitlines():
        line = line.strip()
        if not line or line.startswith('#'): continue
        new, _, olds = line.partition(':')
        new = new.strip().replace('/', '.')
        if new.endswith('.__init__'): new = new[:-9] + '!'   # package file
        res = []
        for o in olds.split():
            o = o.replace('/', '.')
            o = 'toolfold_guest.' + o[2:] if o.startswith('g.') else 'toolfold.' + o
            if o.endswith('.__init__'): o = o[:-9] + '!'
            res.append(o)
        out[new] = res
    return out

def path_of(mod):  # dotted with ! for package
    return SRC / (mod[:-1].replace('.', '/') + '/__init__.py' if mod.endswith('!') else mod.replace('.', '/') + '.py')

present = {}
for pkg in ('toolfold', 'toolfold_guest'):
    for p in sorted((SRC / pkg).rglob('*.py')):
        m = str(p.relative_to(SRC))[:-3].replace('/', '.')
        if m.endswith('.__init__'): m = m[:-9] + '!'
        present[m] = p
NEW = read_map()
listed = {o for os_ in NEW.values() for o in os_}
for o in sorted(listed - set(present)): print('MAP names absent module', o)
for o in sorted(set(present) - listed): print('MAP lacks', o, len(present[o].read_text().splitlines()))
NEW = {n: [o for o in os_ if o in present] for n, os_ in NEW.items()}
NEW = {n: os_ for n, os_ in NEW.items() if os_}
for o in sorted(set(present) - listed): NEW.setdefault(o, []).append(o)
if ONLY:
    keep = {}
    for n, os_ in NEW.items():
        if any(o.rstrip('!') == x or o.startswith(x + '.') for x in ONLY for o in os_): keep[n] = os_
        else:
            for o in os_: keep.setdefault(o, []).append(o)
    # modules not selected stay themselves
    NEW = keep
OLD2NEW = {}
for n, os_ in NEW.items():
    for o in os_:
        assert o not in OLD2NEW, (o, n)
        OLD2NEW[o] = n
PLAIN_OLD = {o.rstrip('!'): o for o in present}     # importable name -> key
def new_plain(old_plain): return OLD2NEW[PLAIN_OLD[old_plain]].rstrip('!')

# overrides
RENAMES = {}
ov = Path(__file__).with_name('renames.txt')
if ov.exists():
    for line in ov.read_text().splitlines():
        if line.strip() and not line.startswith('#'):
            m, name, newname = line.split()
            key = m if m in present else m + '!'
            if key in present: RENAMES[key, name] = newname
            else: print('renames.txt: no module', m)

# ---------- scopes
class Scope:
    def __init__(self, node, kind, parent): self.node, self.kind, self.parent = node, kind, parent; self.bound = set(); self.globals = set(); self.nonlocals = set()

def bind_targets(scope_node):
    """names bound directly in this scope's body"""
    bound, globs, nonl = set(), set(), set()
    def visit(n, top=False):
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(n.name); return
        if isinstance(n, (ast.Lambda,)): return
        if isinstance(n, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            for w in ast.walk(n):
                if isinstance(w, ast.NamedExpr): bound.add(w.target.id)
            return
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)): bound.add(n.id)
        if isinstance(n, ast.Import):
            for a in n.names: bound.add(a.asname or a.name.split('.')[0])
        if isinstance(n, ast.ImportFrom):
            for a in n.names: bound.add(a.asname or a.name)
        if isinstance(n, ast.ExceptHandler) and n.name: bound.add(n.name)
        if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name: bound.add(n.name)
        if isinstance(n, ast.MatchMapping) and n.rest: bound.add(n.rest)
        if isinstance(n, ast.Global): globs.update(n.names)
        if isinstance(n, ast.Nonlocal): nonl.update(n.names)
        for c in ast.iter_child_nodes(n): visit(c)
    body = scope_node.body if isinstance(scope_node.body, list) else [scope_node.body]
    for s in body: visit(s)
    return bound, globs, nonl

class Resolver(ast.NodeVisitor):
    """collect Name nodes that resolve to module globals, and function-scope shadow info"""
    def __init__(self, tree):
        self.uses = defaultdict(list)       # name -> [Name nodes] (global)
        self.shadow = defaultdict(set)      # Name id used global -> set of ids bound in enclosing local scopes
        self.global_stmts = defaultdict(list)
        self.stack = []
        self.top_bound, _, _ = bind_targets(tree)
        self.import_time = defaultdict(bool)
        self.eval_names = set(); self.soft_names = set()
        self.depth_fn = 0; self.in_ann = 0; self.class_depth = 0
        self.all_local_bound = set()
        for s in tree.body: self.visit(s)
    def lookup(self, name):
        for i, (kind, bound, globs, nonl) in enumerate(reversed(self.stack)):
            if name in globs: return 'global'
            if kind == 'class' and i != 0: continue
            if name in bound and name not in nonl: return 'local'
        return 'global'
    def visit_Name(self, n):
        if self.lookup(n.id) == 'global':
            self.uses[n.id].append(n)
            loc = set()
            for kind, bound, globs, nonl in self.stack: loc |= bound
            self.shadow[n.id] |= loc
            if not self.depth_fn:
                (self.soft_names if self.in_ann else self.eval_names).add(n.id)
    def visit_Global(self, n):
        for x in n.names: self.global_stmts[x].append(n)
    def fn(self, n, is_lambda=False):
        if not is_lambda:
            for d in n.decorator_list: self.visit(d)
        a = n.args
        for d in list(a.defaults) + [d for d in a.kw_defaults if d is not None]: self.visit(d)
        self.in_ann += 1
        for arg in a.posonlyargs + a.args + a.kwonlyargs + [x for x in (a.vararg, a.kwarg) if x]:
            if arg.annotation: self.visit(arg.annotation)
        if not is_lambda and n.returns: self.visit(n.returns)
        self.in_ann -= 1
        b, g, nl = bind_targets(n)
        b |= {x.arg for x in a.posonlyargs + a.args + a.kwonlyargs + [x for x in (a.vararg, a.kwarg) if x]}
        self.all_local_bound |= b
        self.stack.append(('fn', b, g, nl)); self.depth_fn += 1
        for s in (n.body if isinstance(n.body, list) else [n.body]): self.visit(s)
        self.stack.pop(); self.depth_fn -= 1
    def visit_FunctionDef(self, n): self.fn(n)
    visit_AsyncFunctionDef = visit_FunctionDef
    def visit_Lambda(self, n): self.fn(n, True)
    def visit_AnnAssign(self, n):
        self.in_ann += 1; self.visit(n.annotation); self.in_ann -= 1
        self.visit(n.target)
        if n.value: self.visit(n.value)
    def visit_ClassDef(self, n):
        for d in n.decorator_list: self.visit(d)
        for b in n.bases: self.visit(b)
        for k in n.keywords: self.visit(k.value)
        b, g, nl = bind_targets(n)
        self.stack.append(('class', b, g, nl))
        for s in n.body: self.visit(s)
        self.stack.pop()
    def comp(self, n):
        b = set()
        for gen in n.generators:
            for w in ast.walk(gen.target):
                if isinstance(w, ast.Name): b.add(w.id)
        self.visit(n.generators[0].iter)
        self.all_local_bound |= b
        self.stack.append(('fn', b, set(), set()))
        for i, gen in enumerate(n.generators):
            self.visit(gen.target)
            if i: self.visit(gen.iter)
            for c in gen.ifs: self.visit(c)
        if isinstance(n, ast.DictComp): self.visit(n.key); self.visit(n.value)
        else: self.visit(n.elt)
        self.stack.pop()
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comp

# ---------- per-file model
class File:
    def __init__(self, path, text=None):
        self.path = path
        self.text = path.read_text() if text is None else text
        self.tree = ast.parse(self.text)
        self.raw = self.text.encode()
        starts = [0]
        for l in self.raw.split(b'\n'): starts.append(starts[-1] + len(l) + 1)
        self.starts = starts
        self._r = None
    @property
    def r(self):
        if self._r is None: self._r = Resolver(self.tree)
        return self._r
    def pos(self, line, col): return self.starts[line - 1] + col
    def span(self, n): return self.pos(n.lineno, n.col_offset), self.pos(n.end_lineno, n.end_col_offset)

def apply_edits(raw, edits):
    edits = sorted(set(edits), key=lambda e: (e[0], e[1]), reverse=True)
    last = None
    for s, e, t in edits:
        assert last is None or e <= last, ('overlap', raw[s:e], t)
        raw = raw[:s] + t.encode() + raw[e:]; last = s
    return raw

def toplevel_defs(tree):
    """name -> node kind for names defined (not imported) at top level, including inside if/try"""
    out = set()
    def go(body):
        for s in body:
            if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)): out.add(s.name)
            elif isinstance(s, (ast.Import, ast.ImportFrom)): pass
            elif isinstance(s, ast.If):
                go(s.body); go(s.orelse)
            elif isinstance(s, ast.Try): go(s.body); [go(h.body) for h in s.handlers]; go(s.orelse); go(s.finalbody)
            else:
                comp = {id(w) for c in ast.walk(s) if isinstance(c, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)) for w in ast.walk(c)}
                for w in ast.walk(s):
                    if isinstance(w, ast.Name) and isinstance(w.ctx, ast.Store) and id(w) not in comp: out.add(w.id)
    go(tree.body); return out

def simple_defs(f):
    # name -> source text of a one-statement definition at top level
    out = {}
    for s in f.tree.body:
        if isinstance(s, (ast.Assign, ast.AnnAssign)):
            t = s.targets[0] if isinstance(s, ast.Assign) else s.target
            if isinstance(t, ast.Name): out[t.id] = ast.unparse(s)
    return out

def toplevel_imports(tree):
    """local name -> origin string"""
    out = {}
    def go(body):
        for s in body:
            if isinstance(s, ast.Import):
                for a in s.names: out[a.asname or a.name.split('.')[0]] = 'import ' + (a.name if a.asname else a.name.split('.')[0])
            elif isinstance(s, ast.ImportFrom):
                for a in s.names: out[a.asname or a.name] = f'{s.module}:{a.name}'
            elif isinstance(s, ast.If): go(s.body); go(s.orelse)
            elif isinstance(s, ast.Try): go(s.body); [go(h.body) for h in s.handlers]
    go(tree.body); return out

FILES = {m: File(p) for m, p in present.items()}
DEFS = {m: toplevel_defs(f.tree) for m, f in FILES.items()}
IMPORTS = {m: toplevel_imports(f.tree) for m, f in FILES.items()}

# ---------- collisions
problems = []
SAME = defaultdict(set)
CURRENT = ['']
IMPORT_ALIAS = {}   # (module, local name) -> new local name  (imports of foreign things that clash)
BUILTINS = set(dir(builtins))
def new_name(m, name): return RENAMES.get((m, name), name)
def origin_new(origin):
    if ':' not in origin: return origin
    mod, name = origin.split(':')
    if f'{mod}.{name}' in PLAIN_OLD: return 'M:' + new_plain(f'{mod}.{name}')
    if mod in PLAIN_OLD:
        k = PLAIN_OLD[mod]
        if name not in DEFS[k] and ':' in IMPORTS[k].get(name, ''): return origin_new(IMPORTS[k][name])
        return new_plain(mod) + ':' + new_name(PLAIN_OLD[mod], name)
    return origin
def auto(m, name):
    leaf = m.rstrip('!').split('.')[-1]
    if name.startswith('_'): return f'_{leaf}{name}'
    return None
for n, olds in NEW.items():
    if len(olds) < 2: continue
    owner = {}
    for o in olds:
        for d in sorted(DEFS[o]):
            dn = new_name(o, d)
            if dn in owner and owner[dn] != o:
                mine, theirs = simple_defs(FILES[o]).get(d), simple_defs(FILES[owner[dn]]).get(d)
                if mine is not None and mine == theirs and not any(x in DEFS[o] for x in FILES[o].r.eval_names if x != d and x in mine):
                    SAME[n].add(d); print('same in', n, mine[:80]); continue
                a = auto(o, d)
                if (o, d) in RENAMES or a is None: problems.append(f'COLLISION {n}: {dn} in {owner[dn]} and {o}')
                else:
                    print(f'auto-rename {o} {d} {a}'); RENAMES[o, d] = a; owner[a] = o
                continue
            owner[dn] = o
    for o in olds:
        used = set(FILES[o].r.uses)
        for d in owner:
            if d in BUILTINS and owner[d] != o and d in used and d not in DEFS[o] and d not in IMPORTS[o]:
                problems.append(f'BUILTIN {n}: {owner[d]} defines {d}, used as builtin in {o}')
    seen = {}
    for o in olds:
        for local, origin in IMPORTS[o].items():
            on = origin_new(origin)
            if on.startswith('M:') and on[2:] == n.rstrip('!'): continue
            if ':' in on and on.split(':')[0] == n.rstrip('!'):
                continue
            eff = local
            if on.startswith('M:') and local == origin.split(':')[1]: eff = on[2:].split('.')[-1]
            eff = IMPORT_ALIAS.get((o, local), eff)
            if eff in owner and owner[eff] != o: problems.append(f'IMPORT-vs-DEF {n}: {o} imports {eff} ({on}), defined in {owner[eff]}')
            if eff in seen and seen[eff][0] != on: problems.append(f'IMPORT-vs-IMPORT {n}: {eff} = {on} in {o}, {seen[eff]}')
            seen.setdefault(eff, (on, o))
    # a function-local name that shadows is fine; a use of a global name that is unbound here but becomes bound is the BUILTIN case

# ---------- pass A: rewrite imports and renamed names in one file
def rewrite(f, here):
    """here: old module key or None. Returns new text."""
    edits = []
    target = OLD2NEW.get(here) if here else None
    tplain = target.rstrip('!') if target else None
    renames = {}           # local global name -> new local name
    modsubst = {}          # local module name -> (old key) for same-target flattening
    modattr = {}           # local module name -> (old key, newlocal)
    if here:
        for (m, name), nn in RENAMES.items():
            if m == here: renames[name] = nn
    def fresh_module_local(local, newmod, node_is_top):
        leaf = newmod.split('.')[-1]
        if leaf == local: return local
        bad = leaf in f.r.shadow.get(local, ()) or leaf in f.r.top_bound or leaf in BUILTINS and False
        if bad or leaf in f.r.all_local_bound:
            return '_'.join(newmod.split('.')[-2:])
        return leaf
    local_import_renames = []   # (function node scope?) for nested imports with renamed names
    for node in ast.walk(f.tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split('.')[0] in ('toolfold', 'toolfold_guest'):
            top = node.col_offset == 0 or any(node in getattr(s, 'body', []) and isinstance(s, ast.If) for s in f.tree.body)
            out = defaultdict(list); changed = False
            for a in node.names:
                full = f'{node.module}.{a.name}'
                if full in PLAIN_OLD and a.name not in DEFS.get(PLAIN_OLD.get(node.module, ''), ()) and IMPORTS.get(PLAIN_OLD.get(node.module, ''), {}).get(a.name, f'{node.module}:{a.name}') == f'{node.module}:{a.name}':
                    nm = new_plain(full); local = a.asname or a.name
                    if tplain and nm == tplain and OLD2NEW[PLAIN_OLD[full]] == target:
                        modsubst[local] = PLAIN_OLD[full]; changed = True; continue
                    nl = a.asname or fresh_module_local(local, nm, top)
                    if nl != local and top: renames[local] = nl
                    elif nl != local: local_import_renames.append((node, local, nl))
                    modattr[local] = PLAIN_OLD[full]
                    par, leaf = nm.rsplit('.', 1)
                    out[par].append(leaf if leaf == nl else f'{leaf} as {nl}')
                    changed |= nm != full
                else:
                    key = PLAIN_OLD.get(node.module)
                    if key is None: out[node.module].append(a.name + (f' as {a.asname}' if a.asname else '')); continue
                    nm = OLD2NEW[key].rstrip('!'); nn = RENAMES.get((key, a.name), a.name)
                    # a name re-exported by a package file that was itself renamed
                    if (key, a.name) not in RENAMES and a.name in IMPORTS[key] and a.name not in DEFS[key]:
                        om, _, on = IMPORTS[key][a.name].partition(':')
                        if om in PLAIN_OLD and (PLAIN_OLD[om], on) in RENAMES: nn = RENAMES[PLAIN_OLD[om], on]
                    local = a.asname or a.name
                    if target and OLD2NEW[key] == target:
                        changed = True
                        if local != nn:
                            if top: renames[local] = nn
                            else: local_import_renames.append((node, local, nn))
                        continue
                    if nn != a.name and not a.asname:
                        if here is None: out[nm].append(f'{nn} as {a.name}')   # tests keep their words
                        else:
                            if top: renames[local] = nn
                            else: local_import_renames.append((node, local, nn))
                            out[nm].append(nn)
                    else: out[nm].append(nn + (f' as {a.asname}' if a.asname and a.asname != nn else ''))
                    changed |= nm != node.module or nn != a.name
            if changed:
                s, e = f.span(node); ind = ' ' * node.col_offset
                if out:
                    noqa = re.search(rb'\([ ]+(# noqa: [^\n]*)', f.raw[s:e])
                    tail = f'  {noqa.group(1).decode()}' if noqa else ''
                    trail = f.raw[e:f.starts[node.end_lineno]].decode().strip()
                    extra = f'  {trail}' if trail.startswith('# noqa') and len(out) > 1 else ''
                    rows = [f'from {m} import ' + ('(' + ', '.join(ns) + ')' if sum(map(len, ns)) > 70 and not tail else ', '.join(ns)) for m, ns in out.items()]
                    if tail: rows = [r + tail if len(r) < 90 else r.replace(' import ', ' import (' + tail + '\n' + ind + '    ') + '\n' + ind + ')' for r in rows]
                    if extra: rows = [r + extra for r in rows[:-1]] + rows[-1:]
                    txt = ('\n' + ind).join(rows)
                    edits.append((s, e, txt))
                else:
                    edits.append((s, e, '\x00DROP\x00'))
    # uses of flattened or renamed modules
    attr_handled = set()
    for n in ast.walk(f.tree):
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name):
            l = n.value.id
            if l in modsubst and f.r.lookup is not None:
                key = modsubst[l]
                nn = RENAMES.get((key, n.attr), n.attr)
                s, e = f.span(n); edits.append((s, e, nn)); attr_handled.add(id(n.value))
                if nn in f.r.shadow.get(l, ()): problems.append(f'SHADOW-FLATTEN {f.path}:{n.lineno}: {l}.{n.attr} -> {nn} is a local name somewhere')
            elif l in modattr:
                key = modattr[l]; nn = RENAMES.get((key, n.attr), n.attr)
                if nn != n.attr:
                    s, e = f.span(n); edits.append((e - len(n.attr), e, nn))
    for l in modsubst:
        for u in f.r.uses.get(l, []):
            if id(u) not in attr_handled: problems.append(f'MODULE-VALUE {f.path}: {l} used as a value line {u.lineno}')
    for name, nn in renames.items():
        for u in f.r.uses.get(name, []):
            if id(u) in attr_handled: continue
            s, e = f.span(u); edits.append((s, e, nn))
            if nn in f.r.shadow[name]: problems.append(f'SHADOW {f.path}:{u.lineno}: {name}->{nn} is shadowed')
        for g in f.r.global_stmts.get(name, []):
            s, e = f.span(g); edits.append((s, e, f.raw[s:e].decode().replace(name, nn)))
        if here and (here, name) in RENAMES:
            for node in ast.walk(f.tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name and node in top_nodes(f.tree):
                    s, e = f.span(node)
                    m = re.compile(rb'(?:async\s+def|def|class)\s+(' + name.encode() + rb')\b').search(f.raw, s)
                    edits.append((m.start(1), m.end(1), nn))
            for node in ast.walk(f.tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value == name:
                    problems.append(f'STRING {f.path}:{node.lineno}: {name!r} renamed to {nn}')
    for node, local, nn in local_import_renames:
        fn = None
        for w in ast.walk(f.tree):
            if isinstance(w, (ast.FunctionDef, ast.AsyncFunctionDef)) and w.lineno <= node.lineno <= w.end_lineno:
                if fn is None or w.lineno >= fn.lineno: fn = w
        if fn is None: problems.append(f'LOCAL-RENAME {f.path}:{node.lineno} {local}->{nn} no function'); continue
        for w in ast.walk(fn):
            if isinstance(w, ast.Name) and w.id == local and id(w) not in attr_handled:
                s, e = f.span(w); edits.append((s, e, nn))
    raw = apply_edits(f.raw, edits)
    return drop(raw.decode())

def top_nodes(tree):
    out = []
    for s in tree.body:
        out.append(s)
        if isinstance(s, (ast.If, ast.Try)): out += s.body
    return out

def drop(text):
    if '\x00DROP\x00' not in text: return text
    lines = text.split('\n'); out = []
    for l in lines:
        if '\x00DROP\x00' in l:
            ind = len(l) - len(l.lstrip())
            # the reason above a dropped lazy import goes with it
            while ind and out and out[-1].strip().startswith('#') and len(out[-1]) - len(out[-1].lstrip()) == ind:
                print('   dropped comment:', CURRENT[0], out[-1].strip()); out.pop()
            out.append(' ' * ind + 'pass  # FOLDED' if ind else '')
        else: out.append(l)
    return '\n'.join(out)

# clean `pass  # FOLDED` where it is not the only statement
def clean_pass(text):
    while True:
        tree = ast.parse(text); lines = text.split('\n'); done = True
        for node in ast.walk(tree):
            for field in ('body', 'orelse', 'finalbody'):
                body = getattr(node, field, None)
                if not isinstance(body, list): continue
                for s in body:
                    if isinstance(s, ast.Pass) and '# FOLDED' in lines[s.lineno - 1]:
                        if len(body) > 1:
                            i = s.lineno - 1
                            del lines[i]
                            if i < len(lines) and not lines[i].strip() and i and not lines[i-1].strip(): del lines[i]
                            elif i < len(lines) and not lines[i].strip() and isinstance(node,(ast.FunctionDef,ast.AsyncFunctionDef)) and body.index(s) == 0: del lines[i]
                            done = False
                        elif isinstance(node, ast.If) and not node.orelse:
                            del lines[node.lineno - 1:node.end_lineno]; done = False
                        else: problems.append(f'PASS left over {ast.unparse(node)[:200]}'); 
                        break
                if not done: break
            if not done: break
        text = '\n'.join(lines)
        if done: return text

# ---------- pass B: one file from several
def split_header(text):
    """docstring, future?, [import text], [typechecking text], body text (rest)"""
    f = File(Path('x'), text); t = f.tree
    lines = text.split('\n')
    doc = ast.get_docstring(t, clean=False)
    taken = set(); imports = []; tc = []
    def grab(s, with_comments=True):
        a, b = s.lineno - 1, s.end_lineno
        while with_comments and a - 1 >= 0 and lines[a - 1].lstrip().startswith('#') and (a - 1) not in taken and lines[a-1].startswith('#') == (s.col_offset == 0): a -= 1
        for i in range(a, b): taken.add(i)
        return '\n'.join(lines[a:b])
    first = 0
    if doc is not None:
        s = t.body[0]; docsrc = '\n'.join(lines[s.lineno - 1:s.end_lineno]); first = 1
        for i in range(s.lineno - 1, s.end_lineno): taken.add(i)
    else: docsrc = None
    future = False
    for s in t.body[first:]:
        if isinstance(s, ast.ImportFrom) and s.module == '__future__': future = True; grab(s)
        elif isinstance(s, (ast.Import, ast.ImportFrom)): imports.append(grab(s))
        elif isinstance(s, ast.If) and isinstance(s.test, ast.Name) and s.test.id == 'TYPE_CHECKING' and not s.orelse and all(isinstance(x, (ast.Import, ast.ImportFrom, ast.Pass)) for x in s.body):
            a, b = s.lineno - 1, s.end_lineno
            for x in s.body:
                if isinstance(x, ast.Pass): continue
                xs = '\n'.join(lines[x.lineno - 1:x.end_lineno])
                # comments directly above, inside the block
                i = x.lineno - 2; cm = []
                while lines[i].strip().startswith('#'): cm.insert(0, lines[i]); i -= 1
                tc.append('\n'.join(cm + [xs]))
            while a - 1 >= 0 and lines[a-1].startswith('#'): 
                tc.insert(0, '    ' + lines[a-1]); taken.add(a-1); a -= 1
            for i in range(a, b): taken.add(i)
    body = '\n'.join(l for i, l in enumerate(lines) if i not in taken).strip('\n')
    return docsrc, doc, future, imports, tc, body

def order_sources(n, olds):
    """main first where evaluation at import allows it"""
    defs = {o: {RENAMES.get((o, d), d) for d in DEFS[o]} for o in olds}
    def needs(o, soft):
        r = FILES[o].r; out = set()
        names = set(r.eval_names) | (set(r.soft_names) if soft else set())
        inside = {}
        for st in FILES[o].tree.body:
            if isinstance(st, (ast.FunctionDef, ast.AsyncFunctionDef)):
                inside[st.name] = {w.id for w in ast.walk(st) if isinstance(w, ast.Name)}
        work = [x for x in names if x in inside]; seen = set()
        while work:
            x = work.pop()
            if x in seen: continue
            seen.add(x); names |= inside[x]; work += [y for y in inside[x] if y in inside]
        for x in names:
            if x in IMPORTS[o]:
                on = origin_new(IMPORTS[o][x])
                if on.startswith('M:'):
                    if on[2:] == n.rstrip('!'):
                        om, _, nm = IMPORTS[o][x].partition(':'); out.add(PLAIN_OLD[f'{om}.{nm}'])
                    continue
                om = IMPORTS[o][x].partition(':')[0]
                if om in PLAIN_OLD and PLAIN_OLD[om] in defs: out.add(PLAIN_OLD[om])
        return out - {o}
    for soft in (True, False):
        edges = {o: needs(o, soft) for o in olds}; left = list(olds); out = []
        while left:
            for o in left:
                if not (edges[o] & set(left)):
                    out.append(o); left.remove(o); break
            else: break
        if not left: return out
    problems.append(f'ORDER {n}: cycle {left} {edges}')
    return olds

def build(n, olds, texts):
    ordered = order_sources(n, olds)
    parts = {o: split_header(texts[o]) for o in ordered}
    main = olds[0]
    future = any(p[2] for p in parts.values())
    out = []
    if parts[main][0]: out.append(parts[main][0])
    else: out.append('"""%s."""' % n.rstrip('!').split('.')[-1])
    if future: out.append('\nfrom __future__ import annotations')
    imps = []; bound = {}
    for i in dict.fromkeys(i for o in ordered for i in parts[o][3]):
        st = ast.parse(i).body[0]
        if isinstance(st, ast.ImportFrom):
            fresh = [a for a in st.names if bound.setdefault(a.asname or a.name, (st.module, a.name)) == (st.module, a.name)]
            if not fresh: continue
            if len(fresh) < len(st.names):
                i = f'from {st.module} import (' + ', '.join(a.name + (f' as {a.asname}' if a.asname else '') for a in fresh) + ')'
        imps.append(i)
    tcs = [i for o in ordered for i in parts[o][4]]
    out.append('\n' + '\n'.join(dict.fromkeys(imps)))
    if tcs:
        # drop what is imported at run time anyway
        have = set()
        for t in imps:
            for s in ast.parse(t).body:
                have |= {a.asname or a.name for a in s.names}
        keep = []
        for t in dict.fromkeys(tcs):
            stripped = re.sub(r'(?m)^    ', '', t)
            b = ast.parse(stripped).body
            if b and isinstance(b[0], ast.Import) and all((a.asname or a.name) in have for a in b[0].names): continue
            if b and isinstance(b[0], ast.ImportFrom):
                names = [a for a in b[0].names if (a.asname or a.name) not in have]
                if not names: continue
                if len(names) < len(b[0].names):
                    t = f'    from {b[0].module} import (' + ', '.join(a.name + (f' as {a.asname}' if a.asname else '') for a in names) + ')'
            keep.append(t)
        if keep: out.append('\nif TYPE_CHECKING:\n' + '\n'.join(keep))
    emitted = set(); emitted_now = set()
    for o in ordered:
        body = parts[o][5]
        if not body.strip(): continue
        if SAME[n]:
            bt = ast.parse(body); bl = body.split('\n')
            for s in reversed(bt.body):
                t = s.targets[0] if isinstance(s, ast.Assign) else s.target if isinstance(s, ast.AnnAssign) else None
                if isinstance(t, ast.Name) and t.id in SAME[n]:
                    if t.id in emitted:
                        del bl[s.lineno - 1:s.end_lineno]
                    else: emitted_now.add(t.id)
            emitted |= emitted_now; emitted_now.clear()
            body = '\n'.join(bl).strip('\n')
        sect = ''
        if o != main and parts[o][1]:
            d = parts[o][1].strip()
            sect = '\n'.join(('# ' + l.strip() if not l.startswith('    ') or True else l).rstrip() for l in d.split('\n'))
            sect = f'\n\n# {"-" * 100}\n' + sect + '\n'
        out.append((sect or '\n') + '\n' + body + '\n')
    return '\n'.join(out).rstrip('\n') + '\n'

moved = {o: n for o, n in OLD2NEW.items() if o != n or len(NEW[n]) > 1}
print(len(NEW), 'targets;', len(moved), 'modules move or join')
texts = {}
for o, f in FILES.items(): CURRENT[0] = o; texts[o] = rewrite(f, o)
OUT = {}
for n, olds in NEW.items():
    if len(olds) == 1:
        t = texts[olds[0]]
        OUT[n] = t
    else:
        OUT[n] = build(n, olds, texts)
    OUT[n] = clean_pass(OUT[n]) if '# FOLDED' in OUT[n] else OUT[n]
    try: ast.parse(OUT[n])
    except SyntaxError as e: problems.append(f'SYNTAX {n}: {e}')
over = sorted(((t.count('\n'), n) for n, t in OUT.items() if t.count('\n') > 600), reverse=True)
print('over 600 before formatting:', over)
print('lines', sum(t.count('\n') for t in OUT.values()))
others = {}
OTHER_ROOTS = ('tests', 'bench', 'design', 'examples', 'docs')
for r in OTHER_ROOTS:
    for p in (ROOT / r).rglob('*.py'):
        if 'node_modules' in p.parts: continue
        try: f = File(p)
        except SyntaxError: continue
        t = rewrite(f, None)
        if t != f.text: others[p] = clean_pass(t) if '# FOLDED' in t else t
print('other files changed', len(others))
for p in problems: print('!', p)
if not APPLY: sys.exit(0)

def git(*a): subprocess.run(['git', '-C', str(ROOT), *a], check=True, stdout=subprocess.DEVNULL)
for n, olds in NEW.items():
    dest = path_of(n)
    if olds == [n]:
        dest.write_text(OUT[n]); continue
gone = []
for n, olds in NEW.items():
    dest = path_of(n)
    if olds == [n]: continue
    dest.parent.mkdir(parents=True, exist_ok=True)
    gone.append((n, olds, dest))
for n, olds, dest in gone:
    for o in olds:
        present[o].unlink(missing_ok=True)
for n, olds, dest in gone: dest.write_text(OUT[n])
for p, t in others.items(): p.write_text(t)
# empty packages vanish; new packages get a file
for d in sorted((SRC).rglob('*'), reverse=True):
    if d.is_dir() and d.name != '__pycache__' and not any(x.name != '__pycache__' for x in d.iterdir()):
        subprocess.run(['rm', '-rf', str(d)])
for d in SRC.rglob('*'):
    if d.is_dir() and any(x.suffix == '.py' for x in d.iterdir()) and not (d / '__init__.py').exists():
        (d / '__init__.py').write_text(f'"""{d.name}."""\n'); print('made', d / '__init__.py')
# textual references
pairs = []
for o, n in OLD2NEW.items():
    if o.rstrip('!') != n.rstrip('!'): pairs.append((o.rstrip('!'), n.rstrip('!')))
pairs.sort(key=lambda x: -len(x[0]))
json.dump({'pairs': pairs, 'files': {o: n for o, n in OLD2NEW.items() if o != n}}, open('fold_pairs.json', 'w'))
dotted = dict(pairs)
rx = re.compile(r'(?<![\w.])(' + '|'.join(re.escape(o) for o, _ in pairs) + r')(?![\w])') if pairs else None
paths = {}
for o, n in OLD2NEW.items():
    if o == n: continue
    a = str(present[o].relative_to(SRC)); b = str(path_of(n).relative_to(SRC))
    paths[a] = b
    if a.startswith('toolfold/'): paths[a[9:]] = b[9:] if b.startswith('toolfold/') else b
prx = re.compile(r'(?<![\w/.-])((?:src/)?)(' + '|'.join(re.escape(p) for p in sorted(paths, key=len, reverse=True)) + r')(?![\w])') if paths else None
exts = {'.py', '.md', '.toml', '.yml', '.yaml', '.ipynb', '.cfg', '.txt', '.json', '.sh', '.mjs', ''}
tracked = subprocess.run(['git', '-C', str(ROOT), 'ls-files', '-co', '--exclude-standard'], capture_output=True, text=True).stdout.splitlines()
for rel in tracked:
    p = ROOT / rel
    if p.suffix not in exts or not p.is_file() or rel.startswith(('CHANGELOG', 'bench/peers/requirements', 'requirements/')): continue
    try: t = p.read_text()
    except UnicodeDecodeError: continue
    u = t
    if rx:
        if p.suffix == '.py':
            # imports are already rewritten: touch strings and comments only (an old name may be a new one)
            import io, tokenize
            toks = []
            try:
                for tok in tokenize.generate_tokens(io.StringIO(t).readline):
                    if tok.type in (tokenize.STRING, tokenize.COMMENT): toks.append(tok)
            except (tokenize.TokenError, SyntaxError, IndentationError): toks = []
            ls = t.split('\n'); offs = [0]
            for l in ls: offs.append(offs[-1] + len(l) + 1)
            for tok in reversed(toks):
                s = offs[tok.start[0] - 1] + tok.start[1]; e = offs[tok.end[0] - 1] + tok.end[1]
                seg = u[s:e]; seg2 = rx.sub(lambda m: dotted[m.group(1)], seg)
                seg2 = prx.sub(lambda m: m.group(1) + paths[m.group(2)], seg2)
                if seg2 != seg: u = u[:s] + seg2 + u[e:]
        else:
            u = rx.sub(lambda m: dotted[m.group(1)], u)
            u = prx.sub(lambda m: m.group(1) + paths[m.group(2)], u)
    if u != t: p.write_text(u)
