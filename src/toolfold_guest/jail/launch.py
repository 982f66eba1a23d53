"""Launcher of the zygote, run by path with nothing inherited: builds the jail and starts it inside.

Rules:
1. It stays as the zygote's parent, so that the host sees the end of all by waiting for one process.
2. Root makes the tree with root's eyes, becomes an unprivileged user, and only then opens the
   namespaces, as that user would. Anyone else opens them first.
3. A layer that is not available ends it with one line to the host. Nothing falls back silently.
"""

import contextlib
import json
import os
import resource
import socket
import sys
from typing import Any, Final, NoReturn

if __name__ == "__main__":  # run by path with -I: the package is not importable yet
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from toolfold_guest.jail import file_tree, kernel_calls, lockdown
from toolfold_guest.jail import kernel_calls as jail_kernel
from toolfold_guest.shared.folder_removal import remove_tree

CONTROL_FD: Final = 3
MAX_MESSAGE_BYTES: Final = 1 << 20
_STACK_BYTES: Final = 8 * 1024 * 1024
_NAMESPACES: Final = {
    "mount": kernel_calls.NEWNS, "pid": kernel_calls.NEWPID, "net": kernel_calls.NEWNET, "ipc": kernel_calls.NEWIPC,
    "uts": kernel_calls.NEWUTS, "cgroup": kernel_calls.NEWCGROUP,
}  # fmt: skip
_NAMESPACE_ADVICE: Final = (
    "allow user namespaces for this user (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns; in a container its seccomp profile), or ask for isolation 'landlock'"
)
# The kernel counts no threads of root.
_THREADS_NOTE: Final = "the number of threads is limited by memory only"


def main(fd: int) -> NoReturn:
    """Build what the first message on `fd` asks for, start the zygote, wait for its end."""
    if fd != CONTROL_FD:
        os.dup2(fd, CONTROL_FD)
    control = socket.socket(fileno=CONTROL_FD)
    folder = ""
    try:
        # Whatever the host forgot to close on exec must not reach the jail.
        kernel_calls.close_from(CONTROL_FD + 1)
        order: dict[str, Any] = json.loads(control.recv(MAX_MESSAGE_BYTES))
        folder = order["folder"]
        # While /proc is still visible: id maps and memory scores are written through it later.
        jail_kernel.open_proc()
        _set_limits()
        notes = _enter(order)
        control.send(json.dumps({"notes": notes}).encode())
        zygote = _start(order)
    except (kernel_calls.JailError, OSError) as error:
        # `strerror`, because an OSError's own text has the path in it.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        _leave(control, reason or "the jail could not be built", folder)
    control.close()
    os.close(jail_kernel.PROC_FD)
    _wait(zygote, folder)


def _leave(control: socket.socket, reason: str, folder: str) -> NoReturn:
    with contextlib.suppress(OSError):  # the host may be gone
        control.send(json.dumps({"failed": reason}).encode())
    if folder:
        remove_tree(folder)
    os._exit(1)


def _set_limits() -> None:
    # A dump of a crashed guest would lie on the host's disk, with all that the program held. One byte: at 0 the kernel
    # still starts a host's handler of dumps, and it never does at 1.
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    for limit, value in (
        (resource.RLIMIT_NPROC, resource.RLIM_INFINITY),
        (resource.RLIMIT_NOFILE, 65_536),
        (resource.RLIMIT_STACK, _STACK_BYTES),  # the C library takes the size of a thread's stack from it, once
    ):
        hard = resource.getrlimit(limit)[1]
        soft = hard if value == resource.RLIM_INFINITY else value
        if hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)
        resource.setrlimit(limit, (soft, hard))


def _enter(order: dict[str, Any]) -> list[str]:
    layers = set(order["layers"])
    notes: list[str] = []
    is_built = False
    if kernel_calls.MACHINE is None and layers & {"mount", "landlock", "seccomp"}:
        raise kernel_calls.JailError(f"no system-call table for {os.uname().machine!r} processors; use another engine")
    # Asked for before anything is built: the answer is the same afterwards, and the message comes sooner.
    if "landlock" in layers:
        lockdown.version()
    if os.geteuid() == 0 and "mount" in layers and _own_mounts():
        _build_tree(order)
        is_built = True
        notes += _drop_user(order)
    elif os.geteuid() == 0 and "caps" in layers:
        notes += _drop_user_in_place(order)
    # First of all namespaces: it is what lets an ordinary user open the others.
    if "user" in layers:
        _open_user_namespace()
    for name, flag in _NAMESPACES.items():
        if name in layers:
            _open_namespace(name, flag)
    if "mount" in layers and not is_built:
        _build_tree(order)
    elif "mount" not in layers:
        file_tree.make_links(order["links"])
    if "uts" in layers:
        _name_host()
    # With the eyes of the user that guests will be: a path that only root can read fails here, with a reason.
    _check_readable(order)
    return notes


def _build_tree(order: dict[str, Any]) -> None:
    try:
        file_tree.build(order)
    except OSError as error:
        raise kernel_calls.JailError(f"the file tree cannot be built ({error.strerror}); {_NAMESPACE_ADVICE}") from None


def _own_mounts() -> bool:
    try:
        kernel_calls.unshare(kernel_calls.NEWNS)
    except OSError:
        # Root without the rights of root, as in a container: go the ordinary user's way.
        return False
    return True


def _drop_user(order: dict[str, Any]) -> list[str]:
    user = jail_kernel.pick_user()
    if user is None:
        reason = "no other user is mapped here"
        return [f"the program runs as this container's root, without its rights, because {reason}", _THREADS_NOTE]
    if order["folder"]:
        os.chown(order["folder"], user, user)
    kernel_calls.drop_user(user)
    return []


def _drop_user_in_place(order: dict[str, Any]) -> list[str]:
    """Without root's eyes on the mounts, another user must be able to read the interpreter where it lies."""
    user = jail_kernel.pick_user()
    if user is not None:
        # Only the effective ids, for a moment: this is a question, and root must be able to come back from it.
        os.setresgid(-1, user, -1)
        os.setresuid(-1, user, -1)
        needed = [*order["readable"], os.path.dirname(order["folder"] or "/")]
        is_readable = all(os.access(path, os.R_OK, effective_ids=True) for path in needed)
        os.setresuid(-1, 0, -1)
        os.setresgid(-1, 0, -1)
        if not is_readable:
            reason = "another user cannot read this interpreter and the temp folder"
            return [f"the program runs as root without its rights, because {reason}", _THREADS_NOTE]
    return _drop_user(order)


def _open_user_namespace() -> None:
    user, group = os.getuid(), os.getgid()
    try:
        kernel_calls.unshare(kernel_calls.NEWUSER)
        jail_kernel.map_ids(user, group, inside=0)
    except OSError as error:
        reason = error.strerror
        raise kernel_calls.JailError(f"user namespaces are refused ({reason}); {_NAMESPACE_ADVICE}") from None


def _open_namespace(name: str, flag: int) -> None:
    try:
        kernel_calls.unshare(flag)
    except OSError as error:
        raise kernel_calls.JailError(f"a {name} namespace is refused ({error.strerror}); {_NAMESPACE_ADVICE}") from None


def _name_host() -> None:
    try:
        socket.sethostname("sandbox")
    except OSError as error:  # Podman's own seccomp profile allows all of the jail but this
        raise kernel_calls.JailError(f"a host name is refused ({error.strerror}); {_NAMESPACE_ADVICE}") from None


def _check_readable(order: dict[str, Any]) -> None:
    needed = [order["arguments"][0], *order["sys_path"]]
    if not all(os.access(path, os.R_OK, effective_ids=True) for path in needed):
        raise kernel_calls.JailError(
            "an unprivileged user cannot read this Python installation; chmod -R go+rX its folders"
        )


def _start(order: dict[str, Any]) -> int:
    kernel_calls.adopt_orphans()
    process = os.fork()
    if process:
        return process
    try:
        kernel_calls.die_with_parent()
        null = os.open("/dev/null", os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.set_inheritable(CONTROL_FD, True)
        os.chdir("/")
        # S606: the arguments are ours.
        os.execve(order["arguments"][0], order["arguments"], order["environment"])  # noqa: S606
    finally:
        os._exit(127)


def _wait(zygote: int, folder: str) -> NoReturn:
    status = 0
    while True:
        try:
            process, ended = os.wait()
        except ChildProcessError:
            break
        if process == zygote:
            status = os.waitstatus_to_exitcode(ended)
    if folder:
        remove_tree(folder)
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
