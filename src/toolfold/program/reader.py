"""One walk over a program's tree: names, calls, imports, and how values are used. Judges nothing."""

from __future__ import annotations

import ast
from typing import Final

from toolfold.program.reading import blocks, naming, using
from toolfold.program.reading.facts import Guard
from toolfold.program.reading.walk import Handler, Walk
from toolfold.program.scopes import Scope


class Reader(Walk):
    """What there is to know about a program before it is judged."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__(tree)
        stack, handlers, saw = self.stack, _HANDLERS, self.shape.kinds.add
        while stack:
            node, scope, guard = stack.pop()
            kind = node.__class__
            saw(kind)
            handler = handlers.get(kind)
            if handler is not None:
                handler(self, node, scope, guard)
            else:
                self.children(node, scope, guard)
        naming.settle(self)


def _leaf(_walk: Walk, _node: ast.AST, _scope: Scope, _guard: Guard) -> None:
    return


_LEAVES: Final = (ast.MatchSingleton, ast.Pass, ast.Break, ast.Continue)
_HANDLERS: Final[dict[type[ast.AST], Handler]] = {
    **naming.HANDLERS,
    **blocks.HANDLERS,
    **using.HANDLERS,
    **dict.fromkeys(_LEAVES, _leaf),
}
