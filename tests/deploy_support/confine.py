"""`confine.py PROFILE FILE...`: a Python file as a container's runtime starts it: without rights, under the profile.

The profile is compiled by libseccomp, as runtimes do it. Where that is not installed, this exits with 77.
"""

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

from toolfold_guest.jail import kernel_calls

NOT_INSTALLED = 77
ACTIONS = {"SCMP_ACT_ALLOW": 0x7FFF0000, "SCMP_ACT_ERRNO": 0x00050001}
OPERATORS = {"SCMP_CMP_EQ": 4}


class Comparison(ctypes.Structure):
    """What one argument of a call must be."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_uint),
        ("value", ctypes.c_uint64),
        ("other", ctypes.c_uint64),
    )


def impose(profile: dict[str, Any]) -> None:
    """Put this process under the profile, for good."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        sys.exit(NOT_INSTALLED)
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ACTIONS[profile["defaultAction"]])))
    for rule in profile["syscalls"]:
        rows = [Comparison(row["index"], OPERATORS[row["op"]], row["value"], 0) for row in rule.get("args", ())]
        array = (Comparison * len(rows))(*rows)
        action = ctypes.c_uint32(ACTIONS[rule["action"]])
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            if number >= 0:  # else not on this machine, or newer than the library: runtimes leave it out, too
                kernel_calls.check(library.seccomp_rule_add_array(context, action, number, len(rows), array), name)
    kernel_calls.check(library.seccomp_load(context), "seccomp_load")


if __name__ == "__main__":
    kernel_calls.drop_bounding_set()
    kernel_calls.drop_capabilities()
    impose(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    os.execv(sys.executable, [sys.executable, "-B", *sys.argv[2:]])
