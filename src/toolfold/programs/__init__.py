"""Saved programs: programs that worked, as typed tools, each with the record of the run that proves it.

```python
async with toolfold.from_config() as runtime:
    await toolfold.programs.save(runtime, execution_id, "monthly_report", parameters={"month": 3})
```
"""

from typing import TYPE_CHECKING

from toolfold.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolfold.programs.parameters import propose_parameters
    from toolfold.programs.proof import ProgramLibrary, Verdict, rerecord, save, verify
    from toolfold.programs.saved_program import SavedProgram
    from toolfold.sources.saved_programs import program_tool

__all__ = [
    "ProgramLibrary", "SavedProgram", "Verdict", "program_tool", "propose_parameters", "rerecord", "save", "verify",
]  # fmt: skip

__getattr__ = lazy_exports(
    __name__,
    {"ProgramLibrary": "toolfold.programs.proof", "Verdict": "toolfold.programs.proof",
     "SavedProgram": "toolfold.programs.saved_program",
     "program_tool": "toolfold.sources.saved_programs", "propose_parameters": "toolfold.programs.parameters",
     "rerecord": "toolfold.programs.proof", "save": "toolfold.programs.proof", "verify": "toolfold.programs.proof"},
)  # fmt: skip
