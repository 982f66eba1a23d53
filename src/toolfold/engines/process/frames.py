"""What a guest is told of the program that it is to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolfold.models import OWN_SETS
from toolfold.prompts.python_stubs import words_for
from toolfold.protocol.codec import encode_facts, encode_program, encode_start, tool_facts

if TYPE_CHECKING:
    from toolfold.engines.base import Order
    from toolfold.models import ToolSpec


def program_frame(text: str, tools: Sequence[ToolSpec]) -> bytes:
    """All that it needs to make the program ready."""
    return encode_program(text, _facts(tools, words_for(text, tools)))


def start_frame(order: Order, *, has_files: bool) -> bytes:
    """All that it needs to run it then; a session's guest has its files."""
    # All that depends on the execution and not on the text: a guest that knows the program waits for this alone.
    options: dict[str, Any] = {
        "preset": order.program.preset_names,
        "seed": order.seed,
        "report_waiting": order.report_waiting,
        "max_argument_bytes": order.limits.value_bytes,
        "max_value_bytes": order.limits.value_bytes,
        "files": [(file.name, file.data) for file in order.files] if order.files and not has_files else [],
        "session": bool(order.session),
    }
    if order.program.library_set not in OWN_SETS:
        options["library_set"] = order.program.library_set
    if order.program.stdin is not None:
        options["stdin"] = order.program.stdin.encode("utf-8", "surrogatepass")
    if order.program.clock is not None:
        options["clock"] = order.program.clock
    if order.tape is not None:
        options["tape"] = (list(order.tape.wakes), list(order.tape.clocks))
    return encode_start(options)


def _facts(tools: Sequence[ToolSpec], words: Mapping[str, tuple[str, str]]) -> bytes:
    """Most programs have the grant of the one before."""
    global _last_grant  # noqa: PLW0603  # a cache of one; a lost race with another thread costs the work once more
    # Signatures and docstrings are long, and only programs that mention `help` or the like can see them.
    if words:
        return encode_facts(tool_facts(spec, words.get(spec.name)) for spec in tools)
    grant = _last_grant
    if grant[0] is not tools:
        grant = _last_grant = tools, encode_facts(tool_facts(spec) for spec in tools)
    return grant[1]


_last_grant: tuple[Sequence[ToolSpec], bytes] = ((), encode_facts(()))
