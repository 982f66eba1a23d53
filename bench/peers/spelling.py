"""Programs in the spelling that a peer's documentation asks for. Nothing else of them changes."""

import ast
from collections.abc import Collection


def without_await(text: str, tools: Collection[str], *, module: str = "", returns: bool = False) -> str:
    """`await tool(...)` as `tool(...)` or `module.tool(...)`; the last expression under `return` if asked for."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    tree = _Calls(tools, module).visit(tree)
    if returns and tree.body and isinstance(tree.body[-1], ast.Expr):
        tree.body[-1] = ast.Return(tree.body[-1].value)
    return ast.unparse(ast.fix_missing_locations(tree))


class _Calls(ast.NodeTransformer):
    def __init__(self, tools: Collection[str], module: str) -> None:
        self._tools, self._module = tools, module

    def visit_Await(self, node: ast.Await) -> ast.AST:
        called = node.value.func if isinstance(node.value, ast.Call) else None
        is_tool = isinstance(called, ast.Name) and called.id in self._tools
        return self.generic_visit(node.value if is_tool else node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self._module and node.id in self._tools and isinstance(node.ctx, ast.Load):
            return ast.Attribute(ast.Name(self._module, ast.Load()), node.id, ast.Load())
        return node
