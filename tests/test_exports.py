import subprocess
import sys
from pathlib import Path

import toolfold


def test_the_public_names_are_these_and_every_one_is_there() -> None:
    assert toolfold.__all__ == [
        "Answers",
        "BackgroundExecution",
        "Call",
        "CallContext",
        "CallRecord",
        "ContextSaved",
        "Decision",
        "EngineCrashed",
        "EngineError",
        "EngineUnavailable",
        "File",
        "FolderStore",
        "Limits",
        "Media",
        "Outcome",
        "Paused",
        "PausedLimits",
        "Policy",
        "Problem",
        "Reply",
        "Runtime",
        "SessionLimits",
        "Tool",
        "ToolError",
        "ToolSpec",
        "ToolfoldError",
        "UsageError",
        "as_tool",
        "drive",
        "from_config",
        "openapi_tools",
        "prompt_text",
        "refuse_approvals",
        "run_sync",
        "shell_tool",
        "tool",
        "value_as_json",
    ]
    assert [name for name in toolfold.__all__ if getattr(toolfold, name, None) is None] == []


def test_importing_the_package_does_not_import_what_is_slow_to_import() -> None:
    slow = ("pydantic", "asyncio", "rich", "numpy", "pydantic_monty")
    code = f"import sys, toolfold; print([name for name in {slow} if name in sys.modules])"
    source = str(Path(toolfold.__file__).parents[1])

    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(toolfold, "nothing_of_that_name")
