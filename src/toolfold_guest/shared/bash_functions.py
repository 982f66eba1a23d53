"""Bash functions of tools: their names, and the text that defines them in every shell of a program.

A call is made with builtins alone, so it starts no process. The supervisor (`toolfold_guest.shell`) makes a folder with
named pipes: `free` holds a letter for each free slot, `calls` takes a line for each call, and `reply.X` is where the
caller of slot X waits for a status of one letter. Arguments and replies are files of their own, `arguments.X` and
`value.X`: bash reads a pipe byte by byte, and a file at once. The reader of a long one empties it, because slots take
turns. The same folder serves subshells, background jobs, `xargs`, other scripts, and `python3`
(`toolfold_guest.shell_client`).
"""

import re
from collections.abc import Mapping
from typing import Final

RESERVED: Final = frozenset(
    (  # noqa: SIM905  # a list would have one word a line
        "if then else elif fi case esac for while until do done in function select time coproc declare typeset local "
        "readonly export unset"
    ).split()
)
"""Words that are no names of functions; a tool of that name has `_tool` behind it."""
COMMANDS: Final = frozenset(
    (  # noqa: SIM905  # as above
        "[ arch awk b2sum base32 base64 basename basenc bash bc bunzip2 bzcat bzip2 cat chmod cksum cmp col column "
        "comm cp csplit cut date dc dd df diff diff3 dir dirname du echo egrep env expand expr factor false fgrep "
        "file find fmt fold gawk getopt grep groups gunzip gzip hd head hexdump hostname id install join jq link ln ls "
        "md5sum mkdir mkfifo mktemp mv nice nl nohup nproc numfmt od paste pathchk pr printenv printf ptx pwd "
        "readlink realpath rev rm rmdir sdiff sed seq setsid sh sha1sum sha224sum sha256sum sha384sum sha512sum "
        "shred shuf sleep sort split stat stdbuf sum sync tac tail tar tee test timeout touch tr tree true truncate "
        "tsort tty uname unexpand uniq unlink unxz unzip users vdir wc which who whoami xargs xxd xz xzcat yes zcat "
        "zcmp zdiff zegrep zfgrep zgrep zip zipinfo"
    ).split()
)
"""That the jail of a bash program has, as far as this machine has them."""
BUILTINS: Final = frozenset(
    (  # noqa: SIM905  # as above
        ". : [ [[ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown "
        "echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile "
        "popd printf pushd pwd python python3 read readarray readonly return set shift shopt source suspend test "
        "times trap true type typeset ulimit umask unalias unset wait"
    ).split()
)
"""Of bash, and the names of the interpreter."""
SLOTS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Calls that may be open at a time; the next one waits."""
FOLDER_VARIABLE: Final = "TOOLFOLD_CALLS"
ABSENT: Final = "; a client may send only the tools that it sees called as commands, or that its model lists"
"""In the error of a call whose tool is not part of the program's request."""
NOT_CALLED: Final = "/tmp has no room for its arguments; it was not called"
NO_ROOM: Final = "it was called, but /tmp has no room for its reply"
_LAUNCHER: Final = re.compile(r"\b(?:xargs|timeout|nohup|nice|env|exec|execdir)\b((?:\\\n|[^|;&\n])*)")
_TOOL: Final = re.compile(r"(?<![\w./=$'\"-])[A-Za-z]\w*_\w+(?![\w./=(])")
"""A name that hardly is that of anything but a tool."""

# Options and traps of the program do not count in here: a trace would show it, and `set -e` would end it. What fails
# for the program is the function itself, with the message on stderr, as a command does.
_QUIET: Final = "{ builtin local - LC_ALL=C IFS=' '; builtin set +eETuxv; } 2>/dev/null"
_CALL: Final = """\
__toolfold_call() {
  builtin local __slot __status __reply __arguments="${2-}"
  if (( $# > 2 )); then
    builtin printf '%s: takes one JSON object, got %d arguments\\n' "$1" "$(( $# - 1 ))" >&2; builtin return 2
  fi
  builtin read -r -N 1 __slot < "$TOOLFOLD_CALLS/free"
  if ! { builtin printf '%s' "$__arguments" > "$TOOLFOLD_CALLS/arguments.$__slot"; } 2>/dev/null; then
    builtin printf '%s' "$__slot" > "$TOOLFOLD_CALLS/free"
    builtin printf '%s: NOT_CALLED\\n' "$1" >&2; builtin return 1
  fi
  builtin printf '%s %s %s %s\\n' "$__slot" "$BASHPID" "${BASH_LINENO[1]-0}" "$1" > "$TOOLFOLD_CALLS/calls"
  builtin read -r -N 1 __status < "$TOOLFOLD_CALLS/reply.$__slot"
  builtin mapfile -d '' -t __reply < "$TOOLFOLD_CALLS/value.$__slot"
  [[ $__status == 2 ]] && __reply="$1: NO_ROOM"
  (( ${#__reply} > 4095 )) && : > "$TOOLFOLD_CALLS/value.$__slot"
  builtin printf '%s' "$__slot" > "$TOOLFOLD_CALLS/free"
  if [[ $__status == 0 ]]; then builtin printf '%s\\n' "${__reply[0]-}"; builtin return 0; fi
  builtin printf '%s\\n' "${__reply[0]-}" >&2
  builtin return 1
}
command_not_found_handle() {
  { builtin local -; builtin set +euxv; } 2>/dev/null
  local __file __hint __place="$0: line ${BASH_LINENO[0]}"
  for __file in $(builtin type -aP -- "$1"); do
    [[ $__file == "$TOOLFOLD_CALLS"/* ]] || builtin exec "$__file" "${@:2}"
  done
  [[ $1 == *_* || ${2-} == \\{* ]] && __hint="; no tool of this program has that name, they are: NAMES"
  [[ $0 == "$TOOLFOLD_CALLS"/* ]] && __place=bash
  builtin printf '%s: %s: command not found%s\\n' "$__place" "$1" "${__hint-}" >&2
  builtin return 127
}
"""


def bash_name(name: str) -> str:
    """The function of a tool, by the rule of the LibreChat client."""
    identifier = re.sub(r"[^a-zA-Z0-9_]", "", re.sub(r"[-\s.]", "_", name))
    if identifier[:1].isdigit():
        identifier = f"_{identifier}"
    return f"{identifier}_tool" if identifier in RESERVED else identifier


def functions_text(names: Mapping[str, int]) -> str:
    """The text that every shell of the program reads first: functions by name, each with the number of its tool."""
    text = _CALL.replace("NAMES", (", ".join(names) or "none") + ABSENT)
    text = text.replace("NOT_CALLED", NOT_CALLED).replace("NO_ROOM", NO_ROOM)
    return text + "".join(
        f'{name}() {{ {_QUIET}; __toolfold_call {name} "$@" || builtin return; }}\n' for name in names
    )


def command_text(name: str) -> str:
    """A tool as a command, for `xargs` and others that start programs; its shell has the function."""
    return f'#!/usr/bin/bash\n{name} "$@"\n'


def absent_text(name: str) -> str:
    """The same for what seems to be a tool and is none; `xargs` alone would only say that there is no such file."""
    return f'#!/usr/bin/bash\ncommand_not_found_handle {name} "$@"\n'


def absent_names(text: str, names: Mapping[str, int]) -> set[str]:
    """What seems to be a tool behind a command that starts programs."""
    seen = {name for rest in _LAUNCHER.findall(text) for name in _TOOL.findall(rest)}
    return seen - names.keys()
