from pathlib import Path

import pytest
from inline_snapshot import snapshot

from toolfold.interfaces.cli.app import run_command

FILES = {
    "ok.py": b"print(1)",
    "latin.py": b"x = '\xe9'",
    "broken_tools.py": b"def price(:\n",
    "raising_tools.py": b"1 / 0",
    "exiting_tools.py": b"import sys; sys.exit(3)",
    "importing_tools.py": b"import no_such_module_here",
    "empty_tools.py": b"x = 1\n_hidden = print\ndef _private(): ...\n",
    "starred_tools.py": b"def price(*tickers): ...",
    "notes.txt": b"",
}

COMMANDS = [
    "run",
    "frob",
    "run ok.py --frob",
    "run ok.py --timeout soon",
    "run ok.py --timeout -1",
    "run ok.py -c 1",
    "run ok.py --memory lots",
    "run ok.py --memory 1",
    "run ok.py --memory 1023KiB",
    "run ok.py --limit data_files=1",
    "run ok.py --limit calls",
    "run ok.py --limit calls=-1",
    "run ok.py --engine jupyter",
    "run ok.py --isolation docker",
    "run ok.py --isolation none",
    "run missing.py",
    "run latin.py",
    "run sub",
    "run ok.py --file missing.csv",
    "run ok.py --file sub",
    "run ok.py --out ok.py",
    "run ok.py --tools missing.py",
    "run ok.py --tools sub/",
    "run ok.py --tools no_such_module",
    "run ok.py --tools no.such.module",
    "run ok.py --tools ..x",
    "run ok.py --tools ./notes.txt",
    "run ok.py --tools broken_tools.py",
    "run ok.py --tools broken_tools",
    "run ok.py --tools raising_tools.py",
    "run ok.py --tools exiting_tools.py",
    "run ok.py --tools importing_tools.py",
    "run ok.py --tools empty_tools.py",
    "run ok.py --tools starred_tools.py",
]


def test_each_wrong_command_line_is_answered_with_one_line_and_exit_code_2(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "sub").mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)

    said = {}
    for command in COMMANDS:
        code = run_command(command.split())
        out, err = capfd.readouterr()
        assert (command, code, out) == (command, 2, "")
        said[command] = err

    assert said == snapshot(
        {
            "run": "toolfold: one program is needed: name a file, `-` for stdin, or write it after -c\n",
            "frob": "toolfold: No such command 'frob'\n",
            "run ok.py --frob": "toolfold: No such option: --frob\n",
            "run ok.py --timeout soon": "toolfold: Invalid value for '--timeout': 'soon' is not a number of seconds\n",
            "run ok.py --timeout -1": "toolfold: timeout -1.0 is not between 0 and 86400 seconds\n",
            "run ok.py -c 1": "toolfold: one program is needed: name a file, `-` for stdin, or write it after -c\n",
            "run ok.py --memory lots": "toolfold: limit memory_bytes='lots' must be a size such as 65536, 64KiB or 10MB\n",
            "run ok.py --memory 1": "toolfold: limit memory_bytes='1' must be 1MiB or more, such as 512MiB\n",
            "run ok.py --memory 1023KiB": "toolfold: limit memory_bytes='1023KiB' must be 1MiB or more, such as 512MiB\n",
            "run ok.py --limit data_files=1": "toolfold: limit data_files='1' must be 16 or more\n",
            "run ok.py --limit calls": "toolfold: unknown limit 'calls'; write NAME=VALUE with one of wall_seconds, cpu_seconds, memory_bytes, output_bytes, value_bytes, sent_bytes, reply_bytes, calls, calls_in_flight, data_bytes, data_files, temp_bytes, open_files, threads, program_bytes\n",
            "run ok.py --limit calls=-1": "toolfold: limit calls='-1' must be a whole number above 0\n",
            "run ok.py --engine jupyter": "toolfold: Invalid value for '--engine': no engine 'jupyter'; there are auto, process, wasm, monty, ray\n",
            "run ok.py --isolation docker": "toolfold: Invalid value for '--isolation': 'docker' is not one of 'namespace', 'landlock', 'none'\n",
            "run ok.py --isolation none": "toolfold: --isolation none lets a program do anything that you can do; if you mean it, add --i-accept-that-programs-can-do-anything\n",
            "run missing.py": "toolfold: no program 'missing.py'; check the path\n",
            "run latin.py": "toolfold: program 'latin.py' is not UTF-8: byte 0xe9 at offset 5; save it as UTF-8\n",
            "run sub": "toolfold: program 'sub' is a folder; name a file in it\n",
            "run ok.py --file missing.csv": "toolfold: no file 'missing.csv'; check the path\n",
            "run ok.py --file sub": "toolfold: file 'sub' is a folder; name a file in it\n",
            "run ok.py --out ok.py": "toolfold: --out 'ok.py' is not a folder; name another\n",
            "run ok.py --tools missing.py": "toolfold: no tools file 'missing.py'; check the path\n",
            "run ok.py --tools sub/": "toolfold: tools file 'sub/' is a folder; name a file in it, or a module\n",
            "run ok.py --tools no_such_module": "toolfold: no module 'no_such_module' for --tools; to name a file, include its extension, as in tools.py\n",
            "run ok.py --tools no.such.module": "toolfold: no module 'no.such.module' for --tools; to name a file, include its extension, as in tools.py\n",
            "run ok.py --tools ..x": "toolfold: '..x' is not a module name; use dots as in package.module, or a file as in tools.py\n",
            "run ok.py --tools ./notes.txt": "toolfold: tools file './notes.txt' is not Python; its name must end in .py\n",
            "run ok.py --tools broken_tools.py": "toolfold: tools 'broken_tools.py' have a syntax error in line 1: invalid syntax\n",
            "run ok.py --tools broken_tools": "toolfold: tools 'broken_tools' have a syntax error in line 1: invalid syntax\n",
            "run ok.py --tools raising_tools.py": "toolfold: tools 'raising_tools.py' in line 1 raised ZeroDivisionError: division by zero\n",
            "run ok.py --tools exiting_tools.py": "toolfold: tools 'exiting_tools.py' in line 1 raised SystemExit: 3\n",
            "run ok.py --tools importing_tools.py": "toolfold: tools 'importing_tools.py' import 'no_such_module_here', which is not installed\n",
            "run ok.py --tools empty_tools.py": "toolfold: no tools in 'empty_tools.py'; decorate a function with @toolfold.tool, or define a public one\n",
            "run ok.py --tools starred_tools.py": "toolfold: in tools 'starred_tools.py', line 1: 'price' cannot be a tool: it takes *tickers; give each argument a name\n",
        }
    )


def test_no_command_shows_the_help_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command([]) == 2
    out, err = capfd.readouterr()
    assert (out, err.splitlines()[0]) == ("", "Usage: toolfold [OPTIONS] COMMAND [ARGS]...")


def test_the_version_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--version"]) == 0
    assert capfd.readouterr().out == snapshot("toolfold 0.2.0.dev0\n")


def test_each_mistake_in_a_config_has_a_line_of_its_own(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "toolfold.yaml").write_text("servres: []\nexecution:\n  timeout_secnds: 1\n")

    code = run_command(["run", "-c", "1"])

    assert (code, capfd.readouterr().err) == (
        2,
        "toolfold: toolfold.yaml:1: servres: unknown key; did you mean 'servers'?\n"
        "toolfold: toolfold.yaml:3: execution.timeout_secnds: unknown key; did you mean 'timeout_seconds'?\n",
    )
