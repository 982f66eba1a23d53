"""The system-call filters: an allow-list with default EPERM in the zygote, a small one per guest.

Only loads, comparisons and returns: the kernel can then see at load time which calls are always
allowed, and does not run the filters for those at all. The list is a binary search over ranges.
"""

import ctypes
import errno
import struct
from typing import Final, NamedTuple

from toolfold_guest.jail.kernel import call
from toolfold_guest.jail.steps import Steps
from toolfold_guest.jail.syscalls import Machine

_SET_MODE_FILTER: Final = 1
_LOAD, _AND, _JUMP, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x45, 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_NUMBER_OFFSET: Final = 0
_ARCH_OFFSET: Final = 4
_X32_BIT: Final = 0x40000000

_CLONE_THREAD: Final = 0x00010000
_CLONE_NAMESPACES: Final = 0x7E020080
_AF_UNIX: Final = 1
# A pair of datagram sockets could name any socket of the host in `sendto`; streams cannot.
_STREAMS: Final = (0x1, 0x801, 0x80001, 0x80801)
# isatty, bytes readable, non-blocking, close-on-exec on and off, window size
_IOCTLS: Final = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451, 0x5413)
# what only reads the process's own state, and its names: of the thread, of a mapping
_PRCTLS: Final = (2, 3, 15, 16, 21, 23, 27, 39, 0x53564D41)
# copies of descriptors, their flags, what is locked, the size of a pipe, seals. Not there, among others: signals on
# input and output, leases, larger pipes (memory that nobody counts), hints (which stay with the host's file).
_FCNTLS: Final = (0, 1, 2, 3, 4, 5, 1027, 1030, 1032, 1034, 1035, 1037)
# Locks of a process. A guest is alone with the files that it may write, so it would never wait for one; granted
# without taking them, they work for its databases and do not touch the host's files, which it may read.
_PROCESS_LOCKS: Final = (6, 7)
# Locks of an open file. These do exclude each other within a process, so they are refused instead.
_FILE_LOCKS: Final = (36, 37, 38)
# The kernel's code for it in unix sockets has let programs out of other sandboxes.
_MSG_OOB: Final = 1
_SOL_SOCKET: Final = 1
# Kind and state of the socket itself, its buffers and timeouts. Not there: everything about the process at its other
# end (a descriptor of it, credentials, groups, security label), and counters that the machine shares.
_SOCKET_OPTIONS: Final = (3, 4, 39, 38, 7, 8, 20, 21, 30)
# Wait, wake, requeue, wake-op and the two with bit sets: what the C library's locks are made of.
_FUTEXES: Final = (0, 1, 9, 10, 5, 4, 3)
# private, clock of the day
_FUTEX_FLAGS: Final = 0x180
# What allocators and the C library say of their own memory. Not there: merging equal pages and paging out, which
# show by their timing what other processes have in memory; holes in files; broken hardware.
_MEMORY_ADVICE: Final = (4, 14, 8, 15, 0, 1, 2, 3, 10, 11, 16, 17, 18, 19, 22, 23, 102, 103)
# All but "will not be needed", which takes a file that others read out of memory.
_FILE_ADVICE: Final = (0, 1, 2, 3, 5)
# Synchronously, and at the end. Not there: "only if it is in memory", which says what others have read; polling;
# untorn; "do not leave it in memory".
_VECTOR_FLAGS: Final = 0x16


class Instruction(NamedTuple):
    """One BPF instruction."""

    code: int
    if_true: int
    if_false: int
    operand: int


def compile_base(machine: Machine) -> bytes:
    """For the zygote, inherited by its guests: what they may call, and what locks them down."""
    numbers = {
        number
        for table in (machine.allowed, machine.attributes, machine.checked, machine.setup)
        for number in table.values()
    }
    program = [_load(_ARCH_OFFSET), *_unless(_EQUAL, machine.audit_arch, _KILL), _load(_NUMBER_OFFSET)]
    if machine.has_x32:
        program += [Instruction(_AT_LEAST, 0, 1, _X32_BIT), _return(_KILL)]
    rules = {machine.checked[name]: rule for name, rule in _base_rules().items()}
    return _assemble([*program, *_search(_ranges(numbers, rules))])


def compile_guest(machine: Machine, process_id: int, *, attributes: bool) -> bytes:
    """On top of the base, for a guest whose own id is `process_id`: no more setup, arguments checked.

    Small, because a guest pays for loading it; `attributes` leaves it modes and times of files.
    """
    refused = [*machine.setup.values(), *(() if attributes else machine.attributes.values())]
    program = [_load(_NUMBER_OFFSET)]
    for name, rule in _guest_rules(process_id).items():
        program += [Instruction(_EQUAL, 0, len(rule), machine.checked[name]), *rule]
    return _assemble([*program, *_one_of(tuple(refused), then=_ERRNO | errno.EPERM, otherwise=_ALLOW)])


class Filter:
    """A compiled filter as the kernel takes it; made before the fork, so that a guest only hands it over."""

    def __init__(self, program: bytes) -> None:
        self._code = ctypes.create_string_buffer(program, len(program))
        self._head = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(self._code)))

    def load(self) -> None:
        """Put the calling thread under the filter, for good."""
        call("seccomp", _SET_MODE_FILTER, 0, self._head)

    def plan(self, steps: Steps) -> None:
        """The same as one of a fork's steps."""
        steps.add("seccomp", _SET_MODE_FILTER, 0, self._head)


def load_filter(program: bytes) -> None:
    """Put the calling thread under the filter, for good."""
    Filter(program).load()


def _base_rules() -> dict[str, list[Instruction]]:
    """What the zygote can do without as well: such a rule costs a guest nothing to load."""
    of_vectors = [_argument(5), *_if(_HAS_BITS, _VECTOR_FLAGS ^ 0xFFFFFFFF, _ERRNO | errno.EOPNOTSUPP), _return(_ALLOW)]
    # Each error is the kernel's own for what it does not have: who asks for it has a way without.
    return {
        # Locks that lend their priority have been a way into the kernel time and again.
        "futex": [
            _argument(1),
            Instruction(_AND, 0, 0, _FUTEX_FLAGS ^ 0xFFFFFFFF),
            *_one_of(_FUTEXES, then=_ALLOW, otherwise=_ERRNO | errno.ENOSYS),
        ],
        "madvise": [_argument(2), *_one_of(_MEMORY_ADVICE, then=_ALLOW, otherwise=_ERRNO | errno.EINVAL)],
        "getsockopt": [
            _argument(1),
            *_unless(_EQUAL, _SOL_SOCKET, _ERRNO | errno.ENOPROTOOPT),
            _argument(2),
            *_one_of(_SOCKET_OPTIONS, then=_ALLOW, otherwise=_ERRNO | errno.ENOPROTOOPT),
        ],
        "fadvise64": [_argument(3), *_one_of(_FILE_ADVICE, then=_ALLOW, otherwise=_ERRNO | errno.EPERM)],
        "preadv2": of_vectors,
        "pwritev2": of_vectors,
    }


def _guest_rules(process_id: int) -> dict[str, list[Instruction]]:
    allow = _return(_ALLOW)
    to_self = [_argument(0), *_unless(_EQUAL, process_id, _ERRNO | errno.EPERM), allow]
    return {
        # First, because a guest uses it most.
        "sendto": [_argument(3), *_if(_HAS_BITS, _MSG_OOB, _ERRNO | errno.EPERM), allow],
        # Its flags lie in memory, which a filter cannot read; without it the C library uses `clone`.
        "clone3": [_return(_ERRNO | errno.ENOSYS)],
        "clone": [
            _argument(0),
            *_if(_HAS_BITS, _CLONE_NAMESPACES, _ERRNO | errno.EPERM),
            *_unless(_HAS_BITS, _CLONE_THREAD, _ERRNO | errno.EPERM),
            allow,
        ],
        # Terminals and devices offer far more than a program needs; one that is not there says so with ENOTTY.
        "ioctl": [_argument(1), *_one_of(_IOCTLS, then=_ALLOW, otherwise=_ERRNO | errno.ENOTTY)],
        "prctl": [_argument(0), *_one_of(_PRCTLS, then=_ALLOW, otherwise=_ERRNO | errno.EPERM)],
        "fcntl": [
            _argument(1),
            *_if_one_of(_PROCESS_LOCKS, _ERRNO),  # error 0 is success
            *_if_one_of(_FILE_LOCKS, _ERRNO | errno.ENOLCK),
            *_one_of(_FCNTLS, then=_ALLOW, otherwise=_ERRNO | errno.EPERM),
        ],
        # A lock on a file that all guests share would tell one program about another.
        "flock": [_return(_ERRNO | errno.ENOLCK)],
        # Within the process only; `_STREAMS` says why no datagrams.
        "socketpair": [
            _argument(0),
            *_unless(_EQUAL, _AF_UNIX, _ERRNO | errno.EPERM),
            _argument(1),
            *_one_of(_STREAMS, then=_ALLOW, otherwise=_ERRNO | errno.EPERM),
        ],
        "kill": to_self,
        "tgkill": to_self,
        "tkill": to_self,
        # Its own limits, and only to read them: no new value may be given.
        "prlimit64": [
            _argument(0),
            Instruction(_EQUAL, 2, 0, 0),
            *_unless(_EQUAL, process_id, _ERRNO | errno.EPERM),
            _argument(2),
            *_unless(_EQUAL, 0, _ERRNO | errno.EPERM),
            _argument(2, high=True),
            *_unless(_EQUAL, 0, _ERRNO | errno.EPERM),
            allow,
        ],
    }


def _assemble(program: list[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _load(offset: int) -> Instruction:
    return Instruction(_LOAD, 0, 0, offset)


def _argument(index: int, *, high: bool = False) -> Instruction:
    return _load(16 + 8 * index + (4 if high else 0))


def _return(action: int) -> Instruction:
    return Instruction(_RETURN, 0, 0, action)


def _unless(test: int, operand: int, action: int) -> list[Instruction]:
    return [Instruction(test, 1, 0, operand), _return(action)]


def _if(test: int, operand: int, action: int) -> list[Instruction]:
    return [Instruction(test, 0, 1, operand), _return(action)]


def _if_one_of(values: tuple[int, ...], action: int) -> list[Instruction]:
    return [step for value in values for step in _if(_EQUAL, value, action)]


def _one_of(values: tuple[int, ...], *, then: int, otherwise: int) -> list[Instruction]:
    tests = [Instruction(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [*tests, _return(otherwise), _return(then)]


def _ranges(numbers: set[int], rules: dict[int, list[Instruction]]) -> list[tuple[int, list[Instruction]]]:
    """`(first, what is done from there on)` in rising order, covering every number."""

    def answer(number: int) -> list[Instruction]:
        return rules.get(number) or [_return(_ALLOW if number in numbers else _ERRNO | errno.EPERM)]

    edges = [0, *(number for number in range(1, max(numbers) + 2) if answer(number) != answer(number - 1))]
    return [(edge, answer(edge)) for edge in edges]


def _search(edges: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    if len(edges) == 1:
        return edges[0][1]
    middle = len(edges) // 2
    lower, upper = _search(edges[:middle]), _search(edges[middle:])
    # A jump in a filter has eight bits.
    if len(lower) <= 255:
        return [Instruction(_AT_LEAST, len(lower), 0, edges[middle][0]), *lower, *upper]
    far = Instruction(_JUMP, 0, 0, len(lower))
    return [Instruction(_AT_LEAST, 0, 1, edges[middle][0]), far, *lower, *upper]
