#!/usr/bin/env python3
"""rename.py ROOT FILE...: apply rename instructions to a checkout, names only.

Lines of an instruction file (# comments and blank lines are ignored):
  local  PATH QUALNAME OLD NEW     a local variable or parameter of one function (nested scopes that see it follow);
                                   QUALNAME is e.g. `Router.serve` or `checked.check` (nested function inside `checked`), `*` = every function of the file
  global PATH OLD NEW              a module-level function, class, constant or alias; every importer follows
  attr   OLD NEW [in=GLOB[,GLOB]]  an attribute, method, field or keyword argument of that name, everywhere (or in the files that match)
  doc    PATH TEXT...              the first line of the module docstring becomes TEXT (no quotes)
PATH is relative to ROOT, e.g. src/toolfold/tools/router.py. Prints what could not be applied; exit 1 then.
"""
import ast, builtins, fnmatch, re, subprocess, sys
from collections import defaultdict
from pathlib import Path
ROOT = Path(sys.argv[1]).resolve()
BUILT = set(dir(builtins))
PY = [ROOT / f for f in subprocess.run(['git', '-C', str(ROOT), 'ls-files', '-co', '--exclude-standard', '*.py'], capture_output=True, text=True).stdout.split('\n') if f]
PY = [p for p in PY if p.is_file() and not any(str(p.relative_to(ROOT)).startswith(x) for x in ('tests/accents/', 'tests/programs/', 'tests/escapes/', 'bench/languages/programs/', 'examples/console/programs/', 'examples/demo/program.py'))]
failures = []
FUNC = (ast.FunctionDef, ast.AsyncFunctionDef)
COMP = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

class Src:
    def __init__(self, path):
        self.path = path; self.load(path.read_text())
    def load(self, text):
        self._refs = None
        self.text = text; self.raw = text.encode(); self.tree = ast.parse(text)
        s = [0]
        for l in self.raw.split(b'\n'): s.append(s[-1] + len(l) + 1)
        self.starts = s
    def span(self, n): return self.starts[n.lineno - 1] + n.col_offset, self.starts[n.end_lineno - 1] + n.end_col_offset
    def find(self, n, word, after=0):
        s, e = self.span(n)
        m = re.compile(rb'(?<![\w])' + word.encode() + rb'(?![\w])').search(self.raw, s + after, e)
        return (m.start(), m.end()) if m else None
    def apply(self, edits):
        raw = self.raw
        for s, e, t in sorted(set(edits), reverse=True): raw = raw[:s] + t.encode() + raw[e:]
        new = raw.decode()
        if not hasattr(self, 'first'): self.first = self.text
        self.load(new); self.dirty = True

def refs_of(src):
    if src._refs is None: src._refs = Refs(src)
    return src._refs

class Norm(ast.NodeTransformer):
    def generic_visit(self, n):
        super().generic_visit(n)
        for f in ('id', 'attr', 'arg', 'name', 'asname', 'rest'):
            if isinstance(getattr(n, f, None), str): setattr(n, f, '_')
        for f in ('names', 'kwd_attrs'):
            v = getattr(n, f, None)
            if isinstance(v, list) and v and isinstance(v[0], str): setattr(n, f, ['_'] * len(v))
        if isinstance(n, ast.ImportFrom): n.names.sort(key=lambda a: 0)
        if isinstance(n, ast.alias): n.name = '_'; n.asname = None
        if isinstance(n, ast.Constant) and isinstance(n.value, str): n.value = 'S'
        return n
def shape(t): return ast.dump(Norm().visit(ast.parse(ast.unparse(t))))

def binds(node):
    """names bound directly in the scope of node: (name -> set), globals, nonlocals"""
    b, g, nl = set(), set(), set()
    def go(n):
        if isinstance(n, FUNC + (ast.ClassDef,)):
            b.add(n.name)
            for d in n.decorator_list: go(d)
            return
        if isinstance(n, ast.Lambda): return
        if isinstance(n, COMP):
            for w in ast.walk(n):
                if isinstance(w, ast.NamedExpr): b.add(w.target.id)
            return
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load): b.add(n.id)
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            for a in n.names: b.add(a.asname or a.name.split('.')[0])
        if isinstance(n, ast.ExceptHandler) and n.name: b.add(n.name)
        if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name: b.add(n.name)
        if isinstance(n, ast.MatchMapping) and n.rest: b.add(n.rest)
        if isinstance(n, ast.Global): g.update(n.names)
        if isinstance(n, ast.Nonlocal): nl.update(n.names)
        for c in ast.iter_child_nodes(n): go(c)
    for s in (node.body if isinstance(node.body, list) else [node.body]): go(s)
    return b - g - nl, g, nl

def args_of(a): return a.posonlyargs + a.args + a.kwonlyargs + [x for x in (a.vararg, a.kwarg) if x]

class Refs:
    """every identifier with the scope that defines it"""
    def __init__(self, src):
        self.src = src; self.refs = []      # (name, scope node or None for module, start, end, kind)
        self.scopes = {}                    # id(node) -> (bound, parent, node, qualname)
        self.stack = []                     # [(node, kind, bound, globs, nonl)]
        b, _, _ = binds(src.tree); self.module_bound = b
        self.quals = {}
        self.used_in = defaultdict(set)     # id(scope) -> names referenced inside it (any depth)
        self.bound_in = defaultdict(set)    # id(scope) -> names bound inside (any depth)
        for s in src.tree.body: self.v(s)
    def resolve(self, name):
        for i, (node, kind, bound, g, nl) in enumerate(reversed(self.stack)):
            if name in g: return None
            if kind == 'class' and i: continue
            if name in bound: return node
        return None
    def add(self, name, s, e, kind, scope='?'):
        sc = self.resolve(name) if scope == '?' else scope
        self.refs.append((name, sc, s, e, kind))
        for node, *_ in self.stack: self.used_in[id(node)].add(name)
    def push(self, node, kind, bound, g=frozenset(), nl=frozenset()):
        self.stack.append((node, kind, bound, g, nl))
        for n, *_ in self.stack: self.bound_in[id(n)] |= bound
    def qual(self): return '.'.join(n.name for n, k, *_ in self.stack if hasattr(n, 'name'))
    def v(self, n):
        src = self.src
        if isinstance(n, FUNC):
            p = src.find(n, n.name) if not n.decorator_list else None
            if p is None:
                m = re.compile(rb'def\s+(' + n.name.encode() + rb')\b').search(src.raw, src.span(n)[0]); p = (m.start(1), m.end(1))
            if not (self.stack and self.stack[-1][1] == 'class'): self.add(n.name, *p, 'def')
            for d in n.decorator_list: self.v(d)
            for d in n.args.defaults + [x for x in n.args.kw_defaults if x]: self.v(d)
            for a in args_of(n.args):
                if a.annotation: self.v(a.annotation)
            if n.returns: self.v(n.returns)
            b, g, nl = binds(n); b |= {a.arg for a in args_of(n.args)}
            self.push(n, 'fn', b, g, nl); self.quals.setdefault(self.qual(), n)
            for a in args_of(n.args):
                s, _ = src.span(a); self.add(a.arg, s, s + len(a.arg.encode()), 'arg', n)
            for s in n.body: self.v(s)
            self.stack.pop(); return
        if isinstance(n, ast.Lambda):
            for d in n.args.defaults + [x for x in n.args.kw_defaults if x]: self.v(d)
            b = {a.arg for a in args_of(n.args)}
            self.push(n, 'fn', b)
            for a in args_of(n.args):
                s, _ = src.span(a); self.add(a.arg, s, s + len(a.arg.encode()), 'arg', n)
            self.v(n.body); self.stack.pop(); return
        if isinstance(n, ast.ClassDef):
            m = re.compile(rb'class\s+(' + n.name.encode() + rb')\b').search(src.raw, src.span(n)[0])
            self.add(n.name, m.start(1), m.end(1), 'def')
            for d in n.decorator_list + n.bases: self.v(d)
            for k in n.keywords: self.v(k.value)
            b, g, nl = binds(n); self.push(n, 'class', b, g, nl); self.quals.setdefault(self.qual(), n)
            for s in n.body: self.v(s)
            self.stack.pop(); return
        if isinstance(n, COMP):
            self.v(n.generators[0].iter)
            b = {w.id for g in n.generators for w in ast.walk(g.target) if isinstance(w, ast.Name)}
            self.push(n, 'fn', b)
            for i, g in enumerate(n.generators):
                self.v(g.target)
                if i: self.v(g.iter)
                for c in g.ifs: self.v(c)
            for x in ([n.key, n.value] if isinstance(n, ast.DictComp) else [n.elt]): self.v(x)
            self.stack.pop(); return
        if isinstance(n, ast.Name):
            self.add(n.id, *src.span(n), 'name'); return
        if isinstance(n, ast.ExceptHandler) and n.name:
            m = re.compile(rb'\bas\s+(' + n.name.encode() + rb')\s*:').search(src.raw, src.span(n.type)[1]); self.add(n.name, m.start(1), m.end(1), 'name')
        if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name:
            s, e = src.span(n); self.add(n.name, e - len(n.name), e, 'name')
        if isinstance(n, ast.MatchMapping) and n.rest:
            p = list(re.finditer(rb'\*\*(' + n.rest.encode() + rb')', src.raw[src.span(n)[0]:src.span(n)[1]]))[-1]
            self.add(n.rest, src.span(n)[0] + p.start(1), src.span(n)[0] + p.end(1), 'name')
        if isinstance(n, (ast.Global, ast.Nonlocal)):
            for x in n.names: self.add(x, *src.find(n, x), 'name')
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            for a in n.names:
                x = a.asname or a.name.split('.')[0]
                s, e = src.span(a)
                if a.asname: self.add(x, e - len(x), e, 'import')
                else: self.add(x, s, s + len(x), 'import')
            return
        for c in ast.iter_child_nodes(n): self.v(c)

FILES = {p: Src(p) for p in PY if True}
def rel(p): return str(p.relative_to(ROOT))
def fail(line, why): failures.append(f'{line.strip()}   <- {why}')

def same_line_conflict(refs, scope, new):
    return new in refs.bound_in[id(scope)] or new in refs.used_in[id(scope)]

def do_local(line, path, qual, old, new):
    src = FILES.get(ROOT / path)
    if src is None: return fail(line, 'no such file')
    refs = refs_of(src)
    scopes = [n for q, n in refs.quals.items() if isinstance(n, FUNC) and (qual == '*' or q == qual)]
    if not scopes: return fail(line, 'no such function')
    edits, kw = [], []
    hit = False
    for fn in scopes:
        owned = {id(fn)} | {id(w) for w in ast.walk(fn) if isinstance(w, COMP + (ast.Lambda,))}
        mine = [r for r in refs.refs if r[0] == old and r[1] is not None and id(r[1]) in owned]
        if not mine: continue
        hit = True
        if any(same_line_conflict(refs, r[1], new) for r in mine):
            if qual != '*': return fail(line, f'{new} is used or bound in there already')
            else: fail(line, f'in {fn.name}: {new} is used or bound already'); continue
        edits += [(s, e, new) for _, _, s, e, k in mine if k != 'import']
        for _, sc, s, e, k in mine:
            if k == 'import': edits.append((s, e, f'{old} as {new}' if src.raw[max(0, s - 4):s] != b' as ' else new))
        a = fn.args
        if any(x.arg == old for x in a.args + a.kwonlyargs):
            q = next(q for q, n in refs.quals.items() if n is fn); parts = q.split('.')
            kw.append(parts[-2] if parts[-1] in ('__init__', '__new__') and len(parts) > 1 else parts[-1])
    if not hit: return fail(line, f'no local {old} there')
    try: src.apply(edits)
    except (ValueError, SyntaxError) as e: return fail(line, str(e))
    for fname in kw:      # keyword arguments of calls
        for s2 in FILES.values():
            ed = []
            if fname not in s2.text: continue
            for c in ast.walk(s2.tree):
                if isinstance(c, ast.Call):
                    f = c.func; nm = f.id if isinstance(f, ast.Name) else f.attr if isinstance(f, ast.Attribute) else None
                    args = [f, *c.args]
                    is_partial = nm == 'partial' and c.args and (getattr(c.args[0], 'id', None) == fname or getattr(c.args[0], 'attr', None) == fname)
                    if nm == fname or is_partial:
                        for k in c.keywords:
                            if k.arg == old: st = s2.span(k)[0]; ed.append((st, st + len(old), new))
            if ed:
                try: s2.apply(ed)
                except (ValueError, SyntaxError) as e: fail(line, str(e))

def modname(p):
    r = rel(p)
    if not r.startswith('src/'): return None
    m = r[4:-3].replace('/', '.')
    return m[:-9] if m.endswith('.__init__') else m

def do_global(line, path, old, new):
    p = ROOT / path; src = FILES.get(p)
    if src is None: return fail(line, 'no such file')
    refs = refs_of(src)
    if old not in refs.module_bound: return fail(line, f'{old} is not a module-level name there')
    if new in refs.module_bound or any(r[0] == new and r[1] is None for r in refs.refs): return fail(line, f'{new} is taken in the module')
    mods = {modname(p) or rel(p)[:-3].replace('/', '.')}
    todo = [(src, refs)]
    def rename_in(src, refs):
        ed = []
        for name, sc, s, e, k in refs.refs:
            if name == old and sc is None:
                # shadowed by a local of the new name?
                ed.append((s, e, new))
        for c in ast.walk(src.tree):     # quoted annotations, casts, __all__, forward references
            if isinstance(c, ast.Constant) and isinstance(c.value, str) and c.value == old:
                s, e = src.span(c); q = src.raw[s:e].decode().replace(old, new); ed.append((s, e, q))
        return ed
    for nname, sc, s, e, k in refs.refs:
        if nname == old and sc is None:
            for c in [x for x in refs.scopes]: pass
    try: src.apply(rename_in(src, refs))
    except (ValueError, SyntaxError) as e: return fail(line, str(e))
    changed = True; done = set()
    while changed:
        changed = False
        for q, s2 in FILES.items():
            if q == p or old not in s2.text: continue
            ed = []; binds_it = False
            for n in ast.walk(s2.tree):
                if isinstance(n, ast.ImportFrom) and n.module in mods:
                    for a in n.names:
                        if a.name == old:
                            st, en = s2.span(a)
                            ed.append((st, st + len(old), new))
                            if a.asname == old:
                                ed.append((en - len(old), en, new))
                                if modname(q): mods.add(modname(q)); changed = True
                            if not a.asname or a.asname == old: binds_it = True
            if not ed: 
                # module attribute use
                aliases = set()
                for n in ast.walk(s2.tree):
                    if isinstance(n, ast.ImportFrom):
                        for a in n.names:
                            if f'{n.module}.{a.name}' in mods: aliases.add(a.asname or a.name)
                for n in ast.walk(s2.tree):
                    if isinstance(n, ast.Attribute) and n.attr == old and isinstance(n.value, ast.Name) and n.value.id in aliases:
                        en = s2.span(n)[1]; ed.append((en - len(old), en, new))
                if ed and q not in done:
                    done.add(q)
                    try: s2.apply(ed)
                    except (ValueError, SyntaxError) as e: fail(line, str(e))
                continue
            if q in done: continue
            done.add(q)
            if binds_it:
                r2 = refs_of(s2)
                top = any(isinstance(n, ast.ImportFrom) and n.module in mods and any(a.name == old for a in n.names) for n in ast.walk(s2.tree) if True)
                local_scopes = set()
                for name, sc, s, e, k in r2.refs:
                    if name == old and k == 'import': local_scopes.add(id(sc) if sc is not None else None)
                for name, sc, s, e, k in r2.refs:
                    if name == old and (id(sc) if sc is not None else None) in local_scopes and k != 'import': ed.append((s, e, new))
                ed = sorted(set(ed))
                for c in ast.walk(s2.tree):
                    if isinstance(c, ast.Constant) and isinstance(c.value, str) and c.value == old and None in local_scopes:
                        s, e = s2.span(c); t = s2.raw[s:e].decode()
                        if q.name == '__init__.py' or '__all__' in s2.text or rel(q).startswith('src/'): ed.append((s, e, t.replace(old, new)))
                if new in r2.module_bound and None in local_scopes: fail(line, f'{new} is bound already in {rel(q)}'); continue
                if (q.name == '__init__.py' or '__all__' in s2.text) and modname(q):
                    mods.add(modname(q)); changed = True
            try: s2.apply(ed)
            except (ValueError, SyntaxError) as e: fail(line, str(e))

def do_attr(line, old, new, globs):
    n_edits = 0
    for q, s2 in FILES.items():
        if old not in s2.text: continue
        if globs and not any(fnmatch.fnmatch(rel(q), g) for g in globs): continue
        if not globs and rel(q).startswith('docs/'): pass
        ed = []
        for n in ast.walk(s2.tree):
            if isinstance(n, ast.Attribute) and n.attr == old: en = s2.span(n)[1]; ed.append((en - len(old), en, new))
            elif isinstance(n, ast.keyword) and n.arg == old: st = s2.span(n)[0]; ed.append((st, st + len(old), new))
            elif isinstance(n, ast.MatchClass):
                for i, kname in enumerate(n.kwd_attrs):
                    if kname == old:
                        ps, _ = s2.span(n.kwd_patterns[i])
                        m = list(re.finditer(rb'\b' + old.encode() + rb'\s*=\s*$', s2.raw[:ps]))
                        if m: ed.append((m[-1].start(), m[-1].start() + len(old), new))
            elif isinstance(n, ast.ClassDef):
                for c in n.body:
                    if isinstance(c, ast.AnnAssign) and isinstance(c.target, ast.Name) and c.target.id == old: ed.append((*s2.span(c.target), new))
                    if isinstance(c, ast.Assign):
                        for t in c.targets:
                            if isinstance(t, ast.Name) and t.id == old: ed.append((*s2.span(t), new))
                    if isinstance(c, FUNC):
                        if c.name == old:
                            m = re.compile(rb'def\s+(' + old.encode() + rb')\b').search(s2.raw, s2.span(c)[0]); ed.append((m.start(1), m.end(1), new))
                    for w in ast.walk(c):
                        if isinstance(c, (ast.Assign,)) and any(getattr(t, 'id', '') == '__slots__' for t in c.targets) and isinstance(w, ast.Constant) and w.value == old:
                            s, e = s2.span(w); ed.append((s, e, f'"{new}"'))
        if ed:
            n_edits += len(set(ed))
            try: s2.apply(ed)
            except (ValueError, SyntaxError) as e: fail(line, str(e))
    if not n_edits: fail(line, 'nothing of that name')

def do_doc(line, path, text):
    src = FILES.get(ROOT / path)
    if src is None: return fail(line, 'no such file')
    d = ast.get_docstring(src.tree, clean=False)
    if d is None: return fail(line, 'no docstring')
    first = d.split('\n')[0]
    s, e = src.span(src.tree.body[0]); raw = src.raw[s:e].decode()
    new = raw.replace(first, text, 1)
    if len(text) > 113: fail(line, 'too long')
    
    if not hasattr(src, 'first'): src.first = src.text
    src.load(src.raw[:s].decode() + new + src.raw[e:].decode()); src.dirty = True

count = 0
for f in sys.argv[2:]:
    for line in Path(f).read_text().splitlines():
        if not line.strip() or line.lstrip().startswith('#'): continue
        w = line.split(); count += 1
        try:
            if w[0] == 'local' and len(w) == 5: do_local(line, *w[1:])
            elif w[0] == 'global' and len(w) == 4: do_global(line, *w[1:])
            elif w[0] == 'attr' and len(w) in (3, 4): do_attr(line, w[1], w[2], w[3][3:].split(',') if len(w) == 4 else [])
            elif w[0] == 'doc': do_doc(line, w[1], line.split(None, 2)[2])
            else: fail(line, 'not an instruction')
        except Exception as e: fail(line, f'{type(e).__name__}: {e}')
for p, src in FILES.items():
    if getattr(src, 'dirty', False):
        if shape(ast.parse(src.text)) != shape(ast.parse(src.first)): failures.append(f'{p}: the tree changed')
        p.write_text(src.text)
print(f'{count} instructions, {len(failures)} not applied')
for x in failures: print(' ', x)
sys.exit(bool(failures))
