"""`exec` in the host's own process: no isolation at all, so the floor that nothing can beat."""

import ast
import inspect
from typing import Any

from bench.runners.base import Runner
from bench.tools import TOOLS


class InProcess(Runner):
    name = "in-process exec"

    async def run(self, text: str) -> Any:
        tree = ast.parse(text)
        names: dict[str, Any] = {tool.__name__: tool for tool in TOOLS}
        last = tree.body[-1]
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        if isinstance(last, ast.Expr):
            tree.body.pop()
        await _finish(eval(compile(tree, "<program>", "exec", flags), names))
        if not isinstance(last, ast.Expr):
            return None
        return await _finish(eval(compile(ast.Expression(last.value), "<program>", "eval", flags), names))


async def _finish(value: Any) -> Any:
    return await value if inspect.iscoroutine(value) else value
