"""The public names of the Pydantic AI door; see `toolfold.doors.pydantic_ai`."""

from toolfold.doors.pydantic_ai import (
    AllowedCallers,
    CodeModeToolset,
    ConfigToolset,
    FunctionToolset,
    NestedApprovals,
    Signature,
    ToolSearchToolset,
    fold,
    signature_from_function,
    signature_from_schema,
    split_by_caller,
    unfold,
)

__all__ = [
    "AllowedCallers",
    "CodeModeToolset",
    "ConfigToolset",
    "FunctionToolset",
    "NestedApprovals",
    "Signature",
    "ToolSearchToolset",
    "fold",
    "signature_from_function",
    "signature_from_schema",
    "split_by_caller",
    "unfold",
]
