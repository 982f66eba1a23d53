"""The system-call filters, run by a small interpreter: both machines are tested on either."""

import errno
import struct
from collections.abc import Mapping

import pytest

from toolfold_guest.jail.lockdown import compile_base, compile_guest
from toolfold_guest.jail.syscalls import MACHINES, Machine

ALLOW, KILL = "allow", "kill"
CLONE_THREAD, CLONE_VM, CLONE_NEWUSER = 0x10000, 0x100, 0x10000000
machines = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())


def evaluate(program: bytes, number: int, arguments: tuple[int, ...] = (), *, arch: int) -> str | int:
    """What the kernel would do: `allow`, `kill`, or an error number."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *(*arguments, *[0] * (6 - len(arguments))))
    code = list(struct.iter_unpack("=HBBI", program))
    accumulator = position = 0
    while True:
        operation, if_true, if_false, operand = code[position]
        position += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, operand)[0]
        elif operation == 0x54:
            accumulator &= operand
        elif operation == 0x05:
            position += operand
        elif operation == 0x06:
            return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(operand, operand & 0xFFFF)
        else:
            holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}
            position += if_true if holds[operation] else if_false


def verdict(machine: Machine, name: str, *arguments: int) -> str | int:
    """Of both filters together: an error goes before `allow`, and a guest is under both."""
    number = {**machine.allowed, **machine.attributes, **machine.checked, **machine.setup}[name]
    programs = compile_base(machine), compile_guest(machine, 7, attributes=False)
    verdicts = [evaluate(program, number, arguments, arch=machine.audit_arch) for program in programs]
    return next((verdict for verdict in verdicts if verdict != ALLOW), ALLOW)


def allowed(machine: Machine, name: str, arguments: Mapping[int, tuple[int, ...]]) -> set[int]:
    """Which of the keys are let through."""
    return {key for key, rest in arguments.items() if verdict(machine, name, *rest) == ALLOW}


@machines
def test_the_base_allows_exactly_what_its_tables_name(machine: Machine) -> None:
    program = compile_base(machine)
    named = {
        *machine.allowed.values(),
        *machine.attributes.values(),
        *machine.checked.values(),
        *machine.setup.values(),
    }

    verdicts = {number: evaluate(program, number, arch=machine.audit_arch) for number in range(600)}

    # With zeros for arguments: no level of socket options is 0.
    special = {machine.checked["getsockopt"]: errno.ENOPROTOOPT}
    special |= {number: errno.EOPNOTSUPP for name, number in machine.checked.items() if name.endswith("xattr")}
    assert verdicts == {number: ALLOW if number in named else errno.EPERM for number in range(600)} | special


@machines
def test_another_calling_convention_is_killed(machine: Machine) -> None:
    program = compile_base(machine)

    assert evaluate(program, 0, arch=0x40000003) == KILL  # i386
    assert evaluate(program, 0x40000000, arch=machine.audit_arch) == (KILL if machine.has_x32 else errno.EPERM)


@machines
def test_a_guest_may_start_threads_but_no_process_and_no_namespace(machine: Machine) -> None:
    assert verdict(machine, "clone", CLONE_VM | CLONE_THREAD) == ALLOW
    assert verdict(machine, "clone", 17) == errno.EPERM
    assert verdict(machine, "clone", CLONE_THREAD | CLONE_NEWUSER) == errno.EPERM
    assert verdict(machine, "clone3") == errno.ENOSYS


@machines
def test_a_guest_may_signal_only_itself(machine: Machine) -> None:
    verdicts = {
        (name, target): verdict(machine, name, target & 0xFFFFFFFFFFFFFFFF, 9)
        for name in ("kill", "tgkill", "tkill")
        for target in (7, 1, 0, -1, -7)
    }

    assert {key for key, value in verdicts.items() if value == ALLOW} == {("kill", 7), ("tgkill", 7), ("tkill", 7)}


@machines
def test_a_guest_may_read_its_own_limits_and_set_none(machine: Machine) -> None:
    assert verdict(machine, "prlimit64", 0, 7, 0, 1) == ALLOW
    assert verdict(machine, "prlimit64", 7, 7, 0, 1) == ALLOW
    assert verdict(machine, "prlimit64", 8, 7, 0, 1) == errno.EPERM
    assert verdict(machine, "prlimit64", 0, 7, 1, 0) == errno.EPERM
    assert verdict(machine, "prlimit64", 0, 7, 1 << 32, 0) == errno.EPERM


@machines
def test_a_guest_makes_pairs_of_unix_streams_only(machine: Machine) -> None:
    """A datagram socket could name any socket of the host as the receiver."""
    unix, inet, netlink = 1, 2, 16
    stream, datagram, with_flags = 1, 2, 0x80801
    verdicts = {
        (family, kind): verdict(machine, "socketpair", family, kind)
        for family in (unix, inet, netlink)
        for kind in (stream, datagram, with_flags)
    }

    assert {key for key, value in verdicts.items() if value == ALLOW} == {(unix, stream), (unix, with_flags)}


@machines
def test_a_guest_has_lost_what_locked_it_down(machine: Machine) -> None:
    assert {verdict(machine, name) for name in machine.setup} == {errno.EPERM}
    assert {verdict(machine, name) for name in machine.attributes} == {errno.EPERM}
    assert verdict(machine, "ioctl", 0, 0x5412) == errno.ENOTTY  # push a character into a terminal
    assert verdict(machine, "prctl", 38) == errno.EPERM
    assert verdict(machine, "fcntl", 0, 1031) == errno.EPERM  # larger pipes
    assert verdict(machine, "fcntl", 0, 1) == ALLOW


@machines
def test_out_of_band_bytes_are_refused_with_other_flags_too(machine: Machine) -> None:
    dont_wait, out_of_band = 0x40, 0x1

    assert verdict(machine, "sendto", 3, 0, 9, dont_wait) == ALLOW
    assert verdict(machine, "sendto", 3, 0, 9, dont_wait | out_of_band) == errno.EPERM


@machines
def test_descriptors_cannot_be_passed_for_no_filter_sees_what_a_message_holds(machine: Machine) -> None:
    assert {verdict(machine, name, 3, 0, 0) for name in ("sendmsg", "recvmsg")} == {errno.EPERM}
    assert {name for name in machine.allowed | machine.checked if name in ("sendmmsg", "recvmmsg")} == set()


@machines
def test_a_socket_tells_about_itself_and_nothing_about_its_other_end(machine: Machine) -> None:
    level = 1
    options = {option: (3, level, option) for option in range(200)}

    assert allowed(machine, "getsockopt", options) == {3, 4, 7, 8, 20, 21, 30, 38, 39}
    assert verdict(machine, "getsockopt", 3, level, 77) == errno.ENOPROTOOPT
    assert verdict(machine, "getsockopt", 3, 6, 3) == errno.ENOPROTOOPT  # of another level


@machines
def test_a_futex_lends_no_priority_whatever_its_flags(machine: Machine) -> None:
    for flags in (0, 128, 256, 384):
        operations = {operation: (0, operation | flags) for operation in range(32)}
        assert allowed(machine, "futex", operations) == {0, 1, 3, 4, 5, 9, 10}
    assert verdict(machine, "futex", 0, 6) == errno.ENOSYS
    assert verdict(machine, "futex", 0, 512) == errno.ENOSYS


@machines
def test_memory_is_not_merged_nor_paged_out_on_advice(machine: Machine) -> None:
    advice = {value: (0, 4096, value) for value in range(128)}

    assert allowed(machine, "madvise", advice) == {0, 1, 2, 3, 4, 8, 10, 11, *range(14, 20), 22, 23, 102, 103}
    assert {verdict(machine, "madvise", 0, 4096, value) for value in (12, 20, 21, 25)} == {errno.EINVAL}


@machines
def test_files_are_neither_evicted_nor_read_only_if_they_are_in_memory(machine: Machine) -> None:
    advice = {value: (3, 0, 0, value) for value in range(32)}
    flags = {value: (3, 0, 1, 0, 0, value) for value in (0, *(1 << bit for bit in range(32)))}

    assert allowed(machine, "fadvise64", advice) == {0, 1, 2, 3, 5}
    assert allowed(machine, "preadv2", flags) == {0, 2, 4, 16}
    assert allowed(machine, "pwritev2", flags) == {0, 2, 4, 16}
    assert verdict(machine, "preadv2", 3, 0, 1, 0, 0, 8 | 2) == errno.EOPNOTSUPP


@machines
def test_no_table_has_the_state_of_the_processor(machine: Machine) -> None:
    named = machine.allowed | machine.attributes | machine.checked | machine.setup | machine.own

    assert named.keys() & {"arch_prctl", "modify_ldt", "ioperm", "iopl"} == set()


@machines
def test_locks_of_the_process_are_granted_without_being_taken_and_those_of_files_refused(machine: Machine) -> None:
    success = 0

    assert {verdict(machine, "fcntl", 0, command) for command in (6, 7)} == {success}
    assert {verdict(machine, "fcntl", 0, command) for command in (36, 37, 38)} == {errno.ENOLCK}
    assert verdict(machine, "flock", 0, 2) == errno.ENOLCK
    assert {verdict(machine, "fcntl", 0, command) for command in (1036, 1038, 1024, 1033)} == {errno.EPERM}


@machines
def test_file_modes_and_times_are_open_to_a_guest_with_a_tree_of_its_own(machine: Machine) -> None:
    program = compile_guest(machine, 1, attributes=True)

    verdicts = {evaluate(program, number, arch=machine.audit_arch) for number in machine.attributes.values()}

    assert verdicts == {ALLOW}
