import ast, sys
from pathlib import Path
from collections import defaultdict
import functools
ROOT=Path(sys.argv[1]); MAP=Path(sys.argv[2]); SRC=ROOT/'src'
FIX='--greedy' in sys.argv
mods={}
for pkg in('toolfold','toolfold_guest'):
    for p in (SRC/pkg).rglob('*.py'):
        m=str(p.relative_to(SRC))[:-3].replace('/','.')
        if m.endswith('.__init__'): m=m[:-9]+'!'
        mods[m]=p
plain={m.rstrip('!'):m for m in mods}
lines={m:len(p.read_text().splitlines()) for m,p in mods.items()}
edges=defaultdict(set)
def visit(node,m):
    for c in ast.iter_child_nodes(node):
        if isinstance(c,ast.If) and isinstance(c.test,ast.Name) and c.test.id=='TYPE_CHECKING':
            for x in c.orelse: visit(x,m)
            continue
        if isinstance(c,ast.ImportFrom) and c.module:
            for a in c.names:
                f=f'{c.module}.{a.name}'
                if f in plain and f!=m.rstrip('!'): edges[m].add(plain[f])
                elif c.module in plain: edges[m].add(plain[c.module])
        if isinstance(c,ast.Import):
            for a in c.names:
                if a.name in plain: edges[m].add(plain[a.name])
        visit(c,m)
for m,p in mods.items(): visit(ast.parse(p.read_text()),m); edges[m].discard(m)
group={}
order=[]
for line in MAP.read_text().splitlines():
    if not line.strip() or line.startswith('#'): continue
    new,_,olds=line.partition(':'); new=new.strip().replace('/','.')
    if new.endswith('.__init__'): new=new[:-9]+'!'
    for o in olds.split():
        o=o.replace('/','.'); o='toolfold_guest.'+o[2:] if o.startswith('g.') else 'toolfold.'+o
        if o.endswith('.__init__'): o=o[:-9]+'!'
        if o in mods: group[o]=new
for m in mods: group.setdefault(m,m)
def sccs(group):
    g=defaultdict(set)
    for a in edges:
        for b in edges[a]:
            if group[a]!=group[b]: g[group[a]].add(group[b])
    idx={};low={};st=[];on=set();out=[];n=[0]
    sys.setrecursionlimit(10000)
    def dfs(v):
        idx[v]=low[v]=n[0]; n[0]+=1; st.append(v); on.add(v)
        for w in g[v]:
            if w not in idx: dfs(w); low[v]=min(low[v],low[w])
            elif w in on: low[v]=min(low[v],idx[w])
        if low[v]==idx[v]:
            c=[]
            while True:
                w=st.pop(); on.discard(w); c.append(w)
                if w==v: break
            if len(c)>1: out.append(c)
    for v in set(group.values()):
        if v not in idx: dfs(v)
    return out
def cost(group): return sum(len(c)**1.5 for c in sccs(group))
size=defaultdict(int)
for m,gname in group.items(): size[gname]+=lines[m]-8
def show(cs):
    for c in cs:
        print('SCC',len(c),sorted(c))
        cs_=set(c)
        for a in sorted(edges):
            for b in sorted(edges[a]):
                if group[a]!=group[b] and group[a] in cs_ and group[b] in cs_:
                    print('    ',a,'->',b,'   [',group[a].split('.')[-1],'->',group[b].split('.')[-1],']')
if not FIX: show([c for c in sccs(group)]); sys.exit()
moves=[]
while True:
    cs=sccs(group)
    if not cs: break
    base=cost(group); best=None
    for c in cs:
        cset=set(c)
        for m in [m for m in mods if group[m] in cset]:
            old=group[m]; members=[x for x in mods if group[x]==old]
            if len(members)==1: continue
            neigh={group[x] for x in edges[m]}|{group[x] for x in mods if m in edges[x]}
            pk=old.rstrip('!').rsplit('.',1)[0]
            for g in [x for x in neigh if x!=old and x.rstrip('!').rsplit('.',1)[0]==pk and not x.endswith('!')]+['NEW']:
                tgt=m if g=='NEW' else g
                if g!='NEW' and size[g]+lines[m]>560: continue
                group[m]=tgt
                k=cost(group)+(1.2 if g=='NEW' else 0)+ (0.3 if old.split('.')[-1]==m.split('.')[-1] else 0)
                if best is None or k<best[0]: best=(k,m,tgt,old)
                group[m]=old
    k,m,t,old=best
    group[m]=t; size[t]+=lines[m]; size[old]-=lines[m]
    moves.append((m,old,t)); print(f'move {m} ({lines[m]}) {old} -> {t}   cost {base:.1f} -> {cost(group):.1f}',flush=True)
print(len(moves), len(set(group.values())))
