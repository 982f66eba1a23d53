"""The public names of the Pydantic AI door; see `toolfold.doors.pydantic_ai`."""

from toolfold.doors.pydantic_ai.approvals import NestedApprovals, fold, unfold
from toolfold.doors.pydantic_ai.configured import ConfigToolset
from toolfold.doors.pydantic_ai.functions import FunctionToolset
from toolfold.doors.pydantic_ai.search import ToolSearchToolset
from toolfold.doors.pydantic_ai.signatures import Signature, signature_from_function, signature_from_schema
from toolfold.doors.pydantic_ai.split import split_by_caller
from toolfold.doors.pydantic_ai.toolset import CodeModeToolset
from toolfold.models import AllowedCallers

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
