"""A listener that prints what programs do, while they do it. Uses only what `toolfold` offers to everybody."""

import sys
from dataclasses import dataclass, field
from typing import TextIO

from toolfold.events import (
    ApprovalAsked,
    DirectCall,
    ProgramBegan,
    ProgramEnded,
    ProgramPaused,
    ProgramPrinted,
    ProgramRejected,
    ProgramResumed,
    RuntimeEvent,
    ToolCalled,
    ToolReplied,
    ToolRetried,
)


@dataclass
class LivePrinter:
    """Prints one line for each event, with the program's line where a call comes from."""

    out: TextIO = field(default_factory=lambda: sys.stdout)

    def __call__(self, event: RuntimeEvent) -> None:
        print(self._line(event), file=self.out)

    def _line(self, event: RuntimeEvent) -> str:
        match event:
            case ProgramBegan():
                return f"began on {event.start_record.engine}"
            case ProgramPrinted():
                return f"{event.stream}: {event.text.rstrip()}"
            case ToolCalled():
                return f"line {event.call.line}: {event.call.tool}({_shown(event.call.arguments)})"
            case ToolRetried():
                return f"attempt {event.attempt} of {event.call.tool}, because {event.error}"
            case ToolReplied():
                return f"{event.record.name}: {event.record.error or f'{event.record.bytes_out} bytes'}"
            case ApprovalAsked():
                return f"needs a yes: {event.call.tool}({_shown(event.call.arguments)})"
            case ProgramPaused():
                return f"paused for {len(event.calls) + len(event.approvals)} answers"
            case ProgramResumed():
                return "went on"
            case ProgramEnded():
                return f"{event.outcome.status} with {event.outcome.value!r}"
            case ProgramRejected():
                return f"rejected: {event.problem.message}"
            case DirectCall():
                return f"direct call of {event.call.tool}"
            case _:
                return type(event).__name__


def _shown(arguments: object) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in dict(arguments).items())  # type: ignore[call-overload]
