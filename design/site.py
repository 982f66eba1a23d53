"""Hooks of the documentation site: the Python API from docstrings, and links to files that are not pages.

Read by MkDocs (`mkdocs.yml`), which runs in an environment of its own: `toolfold` is read as source, never imported.
"""

import ast
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "toolfold"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)")
MODULES = {
    "toolfold": "The names that most programs need; import them from `toolfold`.",
    "toolfold.errors": "Every exception, from `toolfold.errors`.",
    "toolfold.testing": "For tests of your own, from `toolfold.testing`.",
}


# Any, here and below: objects of MkDocs, which is not installed beside the package.
def on_files(files: Any, config: Any) -> Any:
    """Add the page that is made from docstrings."""
    from mkdocs.structure.files import File  # type: ignore[import-not-found]  # noqa: PLC0415 - its own environment

    files.append(File.generated(config, "api.md", content=api_page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A link to a file of the repository that is not a page becomes its path."""

    def kept(match: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(page.file.src_path), match[2]))
        return f"{match[1]} (`{os.path.normpath('docs/' + target)}`)" if target.startswith("..") else match[0]

    return LINK.sub(kept, markdown)


def api_page() -> str:
    """Signatures and docstrings of what users import."""
    parts = [
        "# Python API",
        "",
        "What is listed here changes as the [upgrade notes](upgrading.md) say; anything else may change at any time.",
    ]
    for module, about in MODULES.items():
        parts += ["", f"## {module}", "", about]
        for name, place in _names(module):
            found = _definition(place, name)
            if found is not None:
                parts += ["", f"### {name}", "", "```python", _head(found), "```", "", _words(found)]
    return "\n".join(parts) + "\n"


def _names(module: str) -> list[tuple[str, Path]]:
    """Each public name, and the file that defines it."""
    path = _path(module)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if module != "toolfold":
        public = [one for one in tree.body if isinstance(one, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))]
        return [(one.name, path) for one in public if not one.name.startswith("_")]
    imports = [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.module]
    homes = {
        alias.name: one.module for one in imports for alias in one.names if (one.module or "").startswith("toolfold")
    }
    return [(name, _path(home)) for name, home in sorted(homes.items()) if home]


def _path(module: str) -> Path:
    base = SOURCE.joinpath(*module.split(".")[1:])
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def _definition(path: Path, name: str) -> ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | None:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        one
        for one in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(one, kinds) and one.name == name and not _is_overload(one)
    ]
    return found[-1] if found else None


def _is_overload(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list)


def _head(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, node.bases))
        lines = [f"class {node.name}({bases}):" if bases else f"class {node.name}:"]
        lines += [f"    {ast.unparse(one)}" for one in node.body if isinstance(one, ast.AnnAssign)]
        methods = [one for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
        for one in methods:
            if not _is_overload(one) and (not one.name.startswith("_") or one.name == "__init__"):
                lines.append(f"    {_signature(one)}")
        return "\n".join(lines)
    return _signature(node)


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{word} {node.name}({ast.unparse(node.args)}){returns}"


def _words(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    text = ast.get_docstring(node) or ""
    # Google sections: each of their lines is an item.
    out, in_section = [], False
    for line in text.splitlines():
        if line in ("Args:", "Raises:", "Returns:"):
            out += [f"**{line[:-1]}**", ""]
            in_section = True
        elif in_section and re.match(r"    \w+:", line):
            name, _, rest = line.strip().partition(":")
            out.append(f"- `{name}`:{rest}")
        else:
            in_section = in_section and line.startswith("    ")
            out.append(line.strip() if in_section else line)
    return "\n".join(out)
