"""Tools named on the command line: Python modules, files, and OpenAPI documents."""

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import ModuleType

from toolfold.errors import ToolfoldError, UsageError
from toolfold.sources import function_tools
from toolfold.sources.function_tools import as_tool, import_file
from toolfold.tools.tool import Tool


def load_tools(sources: Sequence[str]) -> list[Tool]:
    """Every `@tool` object of each source; where none is decorated, its public functions."""
    return [tool for source in sources for tool in load_tool_module(source)[1]]


def load_tool_module(source: str) -> tuple[ModuleType, list[Tool]]:
    """One source, a file executed anew each time, and its tools."""
    module = _import(source)
    tools = list(_tools_in(module, source))
    if not tools:
        raise UsageError(f"no tools in {source!r}; decorate a function with @toolfold.tool, or define a public one")
    return module, tools


def load_apis(specs: Sequence[str], base_urls: Sequence[str] = ()) -> list[Tool]:
    """The operations of each document: `SPEC`, or `NAME=SPEC`; a base URL with a name is for that one alone."""
    urls = dict(map(_split_name, base_urls))
    names = {_split_name(text)[0] for text in specs}
    for name in urls:
        if name not in names and (name or not specs):
            raise UsageError(f"--api-base-url is for no --api{f' named {name!r}' if name else ''}; add --api NAME=SPEC")
    if not specs:
        return []
    from toolfold.sources.openapi.source import openapi_tools

    tools: list[Tool] = []
    for text in specs:
        name, spec = _split_name(text)
        tools += openapi_tools(spec, name=name, base_url=urls.get(name, urls.get("", "")))
    return tools


def _split_name(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    return (name, value) if sign and name.replace("-", "_").isidentifier() else ("", text)


def _tools_in(module: ModuleType, source: str) -> Iterator[Tool]:
    # Not `hasattr`: a tools file may hold objects that answer to every name.
    marked = [
        value
        for value in vars(module).values()
        if isinstance(value, Tool) or "__toolfold_tool__" in getattr(value, "__dict__", ())
    ]
    public = [
        value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    # By identity: two names may be bound to one tool.
    for candidate in {id(candidate): candidate for candidate in marked or public}.values():
        try:
            yield as_tool(candidate)
        except ToolfoldError as error:
            raise UsageError(f"in tools {source!r}{_line_of(candidate)}: {error}") from error


def _import(source: str) -> ModuleType:
    is_file = source.endswith(".py") or os.sep in source
    if is_file and not os.path.exists(source):
        raise UsageError(f"no tools file {source!r}; check the path")
    if is_file and os.path.isdir(source):
        raise UsageError(f"tools file {source!r} is a folder; name a file in it, or a module")
    try:
        return import_file(source) if is_file else _import_module(source)
    except SyntaxError as error:
        raise UsageError(f"tools {source!r} have a syntax error in line {error.lineno}: {error.msg}") from error
    except ModuleNotFoundError as error:
        # The module itself is missing, or one that it imports.
        if not is_file and error.name and (source == error.name or source.startswith(f"{error.name}.")):
            raise UsageError(
                f"no module {source!r} for --tools; to name a file, include its extension, as in tools.py"
            ) from error
        raise UsageError(f"tools {source!r} import {error.name!r}, which is not installed") from error
    except PermissionError as error:
        raise UsageError(f"tools {source!r} cannot be read: permission denied") from error
    except UsageError:
        raise
    # Whatever the user's file raises while it is imported, `sys.exit` too, is the user's to fix.
    except (Exception, SystemExit) as error:
        raise UsageError(f"tools {source!r}{_error_location(error)} raised {type(error).__name__}: {error}") from error


def _error_location(error: BaseException) -> str:
    """Where in the user's code, which is below ours and the import system's."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = (__file__, function_tools.__file__)
    inside = [frame for frame in frames if frame.filename not in ours and not frame.filename.startswith("<frozen")]
    return f" in line {inside[0].lineno}" if inside else ""


def _line_of(value: object) -> str:
    code = getattr(getattr(value, "__wrapped__", value), "__code__", None)
    return "" if code is None else f", line {code.co_firstlineno}"


def _import_module(name: str) -> ModuleType:
    # As `python -m` does: the folder one stands in is searched first.
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{name!r} is not a module name; use dots as in package.module, or a file as in tools.py"
        ) from error
    finally:
        sys.path.pop(0)
