"""`exec` in the same process: no isolation at all, so the floor that nothing can beat."""

import ast
import contextlib
import inspect
import io
from typing import Any

from bench.peers.adapters.base import Adapter, Ran


class InProcess(Adapter):
    async def run(self, text: str) -> Ran:
        tree = ast.parse(text)
        names: dict[str, Any] = {"__name__": "__main__", **self.tools}
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        with contextlib.redirect_stdout(io.StringIO()) as out:
            await _finish(eval(compile(tree, "<program>", "exec", flags), names))
            value = None
            if last is not None:
                value = await _finish(eval(compile(ast.Expression(last.value), "<program>", "eval", flags), names))
        return Ran(value, out.getvalue())


async def _finish(value: Any) -> Any:
    return await value if inspect.iscoroutine(value) else value
