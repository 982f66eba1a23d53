"""`python -m tests.platforms [PLATFORM] [ARGUMENTS of pytest]`: the suites as macOS and Windows would run them.

With `--part`, the part that `make test` runs; with names of tests, these. The platform `linux` is the real one, and runs
tests on the wasm engine that have the default one otherwise. The tests of what exists on Linux alone are left out by name, with why.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.platforms.environment import ALL_PLATFORMS, PLATFORMS, make_environment, share_code
from toolfold.engines.wasm import artifacts

FOLDER = Path("build/platforms").absolute()
PART = (
    "tests/platforms/checks.py", "tests/interfaces/cli/test_outputs.py", "tests/sources/test_shell.py",
    "tests/interfaces/mcp/test_stdio.py::test_the_example_runs_against_the_finance_server",
)  # fmt: skip
SUITES = (
    *PART, "tests/test_runtime.py", "tests/test_durability.py", "tests/interfaces/cli", "tests/interfaces/mcp",
    "tests/ledger", "tests/sessions", "tests/sources", "tests/service",
)  # fmt: skip
LINUX_ONLY = {
    "the process engine, or another one by name": (
        "interfaces/cli/test_ahead.py", "interfaces/cli/test_doctor.py", "interfaces/mcp/test_bash.py",
        "interfaces/cli/test_config_of_commands.py::test_engine_and_time",
        "interfaces/cli/test_run.py::test_a_figure_saved_in_the_data_folder_comes_out_as_a_picture",
        "interfaces/cli/test_run.py::test_where_user_namespaces_are_denied",
        "sessions/test_sessions.py::test_a_session_that_ends_leaves_no_process_of_its_guest",
        "sessions/test_sessions.py::test_files_that_a_program_leaves_alone_stay_and_those_it_removes_are_named",
        "test_durability.py::test_a_program_with_threads", "test_runtime.py::test_a_program_runs_to_its_end",
        "test_runtime.py::test_a_program_with_threads_pauses_too",
    ),
    "an interpreter that has not loaded asyncio, as the fakes do": (
        "interfaces/cli/test_streams.py::test_ctrl_c_while_a_command_is_loading",
    ),
    "replicas of a server": ("ledger/test_redis", "ledger/test_sqlite_processes.py", "ledger/test_ahead.py"),
}  # fmt: skip
"""Why tests are left out: beginnings of their names."""
NOT_ON_WINDOWS = {
    "processes that fork, servers that listen, or signals": (
        "interfaces/cli/test_batch.py::test_killed_at_random_moments", "interfaces/cli/test_detached.py",
        "interfaces/cli/test_config_of_commands.py::test_the_console_shows", "interfaces/cli/test_terminal.py",
        "interfaces/cli/test_json.py::test_every_command_with_a_result_takes_the_option",
        "interfaces/cli/test_json.py::test_the_result_is_one_document[run --detach]",
        "sources/test_shell.py::test_what_a_command_leaves_running_is_ended",
    ),
    "rights, links and pipes as files have them": (
        "ledger/test_sqlite.py::test_a_path_that_cannot_be", "ledger/test_sqlite.py::test_the_files_are_for_their_user",
        "sources/mcp/test_remembered.py::test_a_file_that_is_not_ours",
    ),
}  # fmt: skip
"""The same, there alone."""


def main(arguments: list[str]) -> int:
    chosen = [name for name in ALL_PLATFORMS if name in arguments] or PLATFORMS
    is_part = "--part" in arguments
    rest = [argument for argument in arguments if argument not in (*ALL_PLATFORMS, "--part")]
    cache = Path(os.environ.get(artifacts.CACHE_VARIABLE) or artifacts.default_folder()).absolute()
    environment = {**os.environ, artifacts.CACHE_VARIABLE: str(cache)}
    worst = 0
    for platform in chosen:
        python = make_environment(FOLDER / platform, platform)
        share_code(python, cache)
        print(f"platform {platform}", flush=True)
        reasons = {**LINUX_ONLY, **(NOT_ON_WINDOWS if platform == "win32" else {})}
        left_out = [f"--deselect=tests/{name}" for names in reasons.values() for name in names]
        suites = () if any(word.startswith("tests/") for word in rest) else PART if is_part else SUITES
        command = [python, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *left_out, *suites, *rest]
        path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
        own = {**environment, "TOOLFOLD_TEST_PLATFORM": platform, "PATH": path}
        worst = max(worst, subprocess.run(command, env=own, check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
