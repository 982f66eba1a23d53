"""Why a program did not run, as one of a few causes."""

import re

CAUSES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "a module that it does not have",
        ("ModuleNotFound", "No module named", "unresolved-import", r"[Ii]mport (of|from) .* not allowed"),
    ),
    (
        "syntax that it does not know",
        (
            r"not (yet )?support",
            r"statements are not allowed",
            "invalid-syntax",
            "SyntaxError",
            "NotImplementedError",
            r"invalid (variable|attribute|function) name",
            r"name '_\w+_' is not defined",
            "'(Aug)?Assign' object",
            "'Subscript' object",
            "from __future__ imports must",
            "engine cannot run",
            "Unsupported statement",
        ),
    ),
    ("printed text that is lost", ("what it printed did not come back",)),
    ("an event loop of its own", (r"asyncio\.run\(\) cannot", "running event loop", "no current event loop")),
    ("a type checker that says no", (r"^error\[",)),
    (
        "a name or a right that it does not give",
        (
            "NameError",
            "AttributeError",
            "is not defined",
            "has no attribute",
            "cannot import name",
            "Forbidden",
            "PermissionError",
        ),
    ),
    ("a wrong answer", ("wrong value", "printed something else")),
    ("no end", ("no answer in", "process ended", "ran longer than", "took longer than", "TimeoutError", "exceeded")),
)
OTHER = "another error"


def cause_of(reason: str) -> str:
    """The first that fits the words of a failure."""
    return next((cause for cause, words in CAUSES if re.search("|".join(words), reason)), OTHER)
