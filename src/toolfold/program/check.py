"""Static check of a program's text: a `Program` with its library set, or a `Problem` that a model can act on.

This is advice and speed, never the security boundary: whatever passes still runs in the jail.
A rule speaks only when it is certain, for a program rejected wrongly cannot be run at all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import islice
from typing import Final

from toolfold.models import InstalledSet, LibrarySet, Limits, Problem, Program, ToolSpec
from toolfold.program.clean_text import call_in_json
from toolfold.program.known_names import (
    DATA_MODULES,
    DATA_NAMES,
    SCIENCE_MODULES,
    SCIENCE_NAMES,
    ToolIndex,
)
from toolfold.program.parse import late_error, problem_at, problem_at_byte, program_in, split_lines, unfit_text
from toolfold.program.reader import ProgramReader
from toolfold.program.rules.analysis import Analysis
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.imports import (
    argv_faults,
    import_faults,
    input_faults,
    library_faults,
    missing_package,
    outward_faults,
)
from toolfold.program.rules.tool_calls import ToolCallCheck, stand_ins
from toolfold.program.rules.undefined_names import Bindings
from toolfold.program.syntax_facts import Function, last_name
from toolfold_guest.shared.bash_functions import bash_name

_PLAIN: Final = frozenset({ast.Module, ast.Expr, ast.Await, ast.Call, ast.Name, ast.Constant, ast.keyword})
"""Of programs that only call tools with constants, and print."""
_LIMITS: Final = Limits()
_NOTHING: Final[frozenset[str]] = frozenset()
_MOST_HINTS: Final = 3


def check(
    text: str, tools: Sequence[ToolSpec] = (), *, limits: Limits = _LIMITS, installed: Container[str] | None = None,
    known_names: Container[str] | None = None,
) -> Program | Problem:  # fmt: skip
    """Check one program; keep a `Checker` to check many against the same tools."""
    return Checker(tools).check(text, limits=limits, installed=installed, known_names=known_names)


class Checker:
    """Checks programs against one set of tools, whose names it sorts once."""

    def __init__(self, tools: Sequence[ToolSpec] = ()) -> None:
        self._tools = tools

    def check(
        self, text: str, *, limits: Limits | None = None, known_names: Container[str] | None = None,
        installed: Container[str] | None = None, library_sets: Sequence[InstalledSet] | None = None,
        has_stdin: bool = False,
    ) -> Program | Problem:  # fmt: skip
        """The program, unless something is certainly wrong with it; then the first problem in its text.

        Args:
            text: The program.
            limits: Only `program_bytes` matters here.
            known_names: Names that a session holds from earlier programs; `None` outside of a session that holds any.
            installed: Top-level modules beyond the standard library, the program's own files included; `None` judges
                none.
            library_sets: What was installed for programs, of which it may need one; `None` where nothing can be.
            has_stdin: There is something for `input` to read.
        """
        if not text or text.isspace():
            return Program(text=text)
        read = program_in(text, limits or _LIMITS)
        if isinstance(read, Problem):
            return self._with_hyphen(read)
        original_text, (text, tree, notes, packages) = text, read
        if tree.body and tree.body[0].__class__ is ast.Expr and text.lstrip()[:1] in ("{", "["):
            refusal = self._call_in_json(text)
            if refusal is not None:
                return refusal
        reader = ProgramReader(tree)
        replaced = stand_ins(tree, reader, self._index) if reader.root.functions else []
        if replaced:
            checked = self.check(
                _without_lines(text, replaced), limits=limits, known_names=known_names, installed=installed,
                library_sets=library_sets, has_stdin=has_stdin,
            )  # fmt: skip
            return checked if isinstance(checked, Problem) else _with_tools(checked, original_text, notes, replaced)
        late = late_error(text, tree, reader)
        if late is not None:
            return late
        program = Analysis(tree, reader, self._index, _NOTHING if known_names is None else known_names)
        calls = ToolCallCheck(program)
        faults = sorted(_faults(program, calls, installed, library_sets, has_stdin=has_stdin), key=_position)
        if reader.names.functions and not (reader.names.is_dynamic or known_names is not None):
            from toolfold.program.rules.silent_mistakes import uncalled_faults  # noqa: PLC0415  # as above

            faults += uncalled_faults(program)
        fault = next((fault for fault in faults if fault.is_certain), None)
        if fault is not None:
            return problem_at_byte(text, fault.kind, fault.message, *_position(fault))
        for package, line in packages:
            reason = missing_package(package, self._index, installed, library_sets)
            if reason is not None:
                return problem_at(original_text, "import", reason, line, None)
        suspicions = faults if calls.caught is None else [*faults, calls.caught]
        if suspicions:
            lines = dict.fromkeys(f"line {_position(fault)[0]}: {fault.message}" for fault in suspicions)
            notes = (*notes, *islice(lines, _MOST_HINTS))
        return Program(
            text=text, library_set=library_set(text, program, library_sets or ()), preset_names=program.presets,
            sent="" if original_text == text else original_text, notes=notes,
        )  # fmt: skip

    def check_bash(self, text: str, *, limits: Limits = _LIMITS) -> Program | Problem:
        """A bash program, unless it certainly has a problem; bash itself says whether it can be read."""
        from toolfold.program.bash_check import FENCE, check_bash  # noqa: PLC0415  # for bash programs alone

        if problem := unfit_text(text, limits):
            return problem
        program = Program(text=text, language="bash")
        if fence := FENCE.fullmatch(text):  # its lines keep their numbers
            inside = "\n" * text.count("\n", 0, fence.start(1)) + fence[1]
            program = replace(program, text=inside, sent=text, notes=("left out the Markdown fence",))
        return check_bash(program.text, self._bash_tools) or program

    @cached_property
    def _bash_tools(self) -> dict[str, ToolSpec]:
        return {bash_name(tool.name): tool for tool in self._tools}

    @cached_property
    def _index(self) -> ToolIndex:
        return ToolIndex(self._tools)

    def _call_in_json(self, text: str) -> Problem | None:
        """A tool call as JSON is a valid program that does nothing."""
        call = call_in_json(text)
        if call is None or call[0] not in self._index.names:
            return None
        arguments = ", ".join(f"{name}={value!r}" for name, value in call[1].items())
        message = f"a tool call in JSON; call the tool in Python: await {call[0]}({arguments})"
        return problem_at(text, "syntax", message, 1 + text[: len(text) - len(text.lstrip())].count("\n"), None)

    def _with_hyphen(self, problem: Problem) -> Problem:
        """`mcp__s-2__x` is not even a subtraction: say what to write instead."""
        if problem.kind == "syntax":
            for name, tool in self._index.hyphenated.items():
                if name in problem.source:
                    return replace(problem, message=f"{name!r} is not a valid Python name; write {tool.python_name!r}")
        return problem


def _faults(
    program: Analysis, calls: ToolCallCheck, installed: Container[str] | None,
    library_sets: Sequence[InstalledSet] | None, *, has_stdin: bool,
) -> Iterator[Fault]:  # fmt: skip
    """The first fault of each kind of rule."""
    reader, names = program.reader, program.names
    if not names.loads and not reader.imports:
        return  # every rule is about a name or an import
    if reader.imports:
        # A program that changes where modules are looked for, or writes one, may import what nobody sees here.
        is_hidden = names.is_dynamic or "path" in names.attributes or names.mentions_files
        yield from islice(import_faults(program, None if is_hidden else installed, library_sets), 1)
        yield from islice(calls.import_faults(), 1)
    if reader.values.subtractions:
        yield from islice(calls.subtraction_faults(), 1)
    yield from calls.faults()
    if names.is_dynamic:
        return
    yield from Bindings(program).faults()
    if _is_plain(program):
        return
    if not has_stdin:
        yield from input_faults(program)
    always, of_functions, of_attributes, of_replies = _late_rules()
    rules = always
    if names.functions:
        rules += of_functions
    if names.attributes or reader.imports:
        rules += of_attributes
    if program.tools:
        rules += of_replies
    for faults in rules:
        yield from faults(program)


@cache
def _late_rules() -> tuple[tuple[Callable[[Analysis], Iterator[Fault]], ...], ...]:
    """Rules by what a program must have; imported when they are asked: a plain program need not wait for them."""
    from toolfold.program.rules import misused_values, own_functions  # noqa: PLC0415
    from toolfold.program.rules.silent_mistakes import silent_faults  # noqa: PLC0415
    from toolfold.program.rules.value_flow import type_faults  # noqa: PLC0415

    return (
        (outward_faults, *misused_values.RULES, own_functions.class_faults, silent_faults),
        (own_functions.arity_faults, misused_values.value_faults),
        (argv_faults, library_faults, own_functions.attribute_faults),
        (misused_values.stream_faults, type_faults),
    )


def _is_plain(program: Analysis) -> bool:
    """Whether it only calls tools with constants and prints: no rule for values and functions can apply then."""
    reader, tools = program.reader, program.tools
    if not reader.shape.kinds <= _PLAIN or reader.values.braces or not reader.values.awaited <= tools.keys():
        return False
    loads = sum(map(len, program.names.loads.values()))
    return loads == len(reader.calls) and all(_is_plain_call(use.node, tools) for use in reader.calls)


def _is_plain_call(call: ast.Call, tools: Container[ast.AST]) -> bool:
    if call not in tools:
        return last_name(call.func) == "print"
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(argument.__class__ is ast.Constant for argument in arguments)


def _without_lines(text: str, nodes: Sequence[Function]) -> str:
    """The text with empty lines for some definitions, so that the others stay where they are."""
    lines = split_lines(text)
    for node in nodes:
        lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(lines)


def _with_tools(program: Program, sent: str, notes: tuple[str, ...], nodes: Sequence[Function]) -> Program:
    hints = tuple(
        f"line {node.lineno}: left out the definition of {node.name!r}, which would replace the tool of that name and "
        "calls none"
        for node in nodes
    )
    return replace(program, sent=sent, notes=(*notes, *hints, *program.notes))


def _position(fault: Fault) -> tuple[int, int]:
    """Line from 1 and byte from 0; of `a.b.c` the place is that of `c`."""
    node = fault.node
    if isinstance(node, ast.Attribute) and node.end_lineno is not None and node.end_col_offset is not None:
        return node.end_lineno, node.end_col_offset - len(node.attr.encode())
    assert isinstance(node, ast.expr | ast.alias | ast.keyword | ast.stmt)
    return node.lineno, node.col_offset


# ----------------------------------------------------------------------------------------------------
# Which libraries a program needs: one of the engine's own sets, or packages that were installed for programs.

_IMPORTED_BY: Final = {
    "read_parquet": "pyarrow", "to_parquet": "pyarrow", "read_feather": "pyarrow", "to_feather": "pyarrow",
    "read_orc": "pyarrow", "to_orc": "pyarrow", "read_html": "lxml", "read_xml": "lxml", "to_xml": "lxml",
    "read_excel": "openpyxl", "to_excel": "openpyxl", "ExcelFile": "openpyxl", "ExcelWriter": "openpyxl",
    "to_markdown": "tabulate", "read_hdf": "tables", "to_hdf": "tables", "to_latex": "jinja2", "style": "jinja2",
}  # fmt: skip
"""Modules that pandas functions import when they are called."""
_BY_NAME: Final = re.compile(r"\b(?:import_module|__import__|find_spec|exec|eval|compile|run_path|run_module)\b")
"""Programs with one of these may import a module of which there is only the name, in a text."""


def library_set(text: str, program: Analysis, installed: Sequence[InstalledSet]) -> LibrarySet:
    modules, presets = program.names.modules, program.presets
    if installed:
        needed = set(_modules(text, program, installed))
        best = max(installed, key=lambda installed_set: len(needed & installed_set.modules))
        if not needed.isdisjoint(best.modules):
            return best.name
    if not SCIENCE_MODULES.isdisjoint(modules) or not SCIENCE_NAMES.isdisjoint(presets):
        return "science"
    return "bare" if DATA_MODULES.isdisjoint(modules) and DATA_NAMES.isdisjoint(presets) else "data"


def _modules(text: str, program: Analysis, installed: Sequence[InstalledSet]) -> Iterator[str]:
    modules = {*program.names.modules, *program.presets}
    yield from modules
    if not modules.isdisjoint({"pandas", "pd"}):
        yield from (module for name, module in _IMPORTED_BY.items() if name in program.names.attributes)
    if _BY_NAME.search(text):
        words = set(re.findall(r"\w+", text))
        yield from (module for installed_set in installed for module in installed_set.modules if module in words)
