"""The public names of the Pydantic AI interface; see `toolfold.interfaces.pydantic_ai`."""

from toolfold.interfaces.pydantic_ai.allowed_callers import FunctionToolset
from toolfold.interfaces.pydantic_ai.config_toolset import ConfigToolset
from toolfold.interfaces.pydantic_ai.nested_calls import NestedApprovals, fold, unfold
from toolfold.interfaces.pydantic_ai.signatures import Signature, signature_from_function, signature_from_schema
from toolfold.interfaces.pydantic_ai.tool_search import ToolSearchToolset
from toolfold.interfaces.pydantic_ai.toolset import CodeModeToolset, split_by_caller
from toolfold.models import AllowedCallers

__all__ = [
    "AllowedCallers", "CodeModeToolset", "ConfigToolset", "FunctionToolset", "NestedApprovals", "Signature",
    "ToolSearchToolset", "fold", "signature_from_function", "signature_from_schema", "split_by_caller", "unfold",
]  # fmt: skip
