"""System-call numbers by machine: what a guest may call, and what the jail itself calls. Data only.

A name that a table lacks does not exist on that machine. Everything that no table names is refused.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Machine:
    """The system calls of one kind of processor."""

    audit_arch: int
    """How the kernel names the calling convention to a filter; any other one is killed."""
    allowed: dict[str, int]
    """With any arguments."""
    attributes: dict[str, int]
    """Change modes and times of files by path; only where the mount tree guards the host's files."""
    checked: dict[str, int]
    """Allowed with some arguments only; `seccomp` has the rules."""
    setup: dict[str, int]
    """What locks a guest down: allowed to the zygote and to a fresh fork, refused from then on."""
    own: dict[str, int]
    """What the jail calls by number, because older C libraries have no function for it."""
    shell: dict[str, int]
    """Processes, in a jail whose programs may start them: allowed with any arguments, but for those of `checked`."""
    has_x32: bool = False
    """A second calling convention hides behind bit 30 of the number."""


def _numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (pair.split("=") for pair in text.split())}


_X86_64: Final = Machine(
    audit_arch=0xC000003E,
    allowed=_numbers("""
    read=0 write=1 open=2 close=3 stat=4 fstat=5 lstat=6 poll=7 lseek=8 mprotect=10 munmap=11 brk=12
    rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 pread64=17 pwrite64=18 readv=19 writev=20 access=21
    pipe=22 select=23 sched_yield=24 mremap=25 msync=26 dup=32 dup2=33 pause=34 nanosleep=35
    getitimer=36 alarm=37 setitimer=38 getpid=39 sendfile=40 recvfrom=45
    shutdown=48 getsockname=51 getpeername=52 exit=60 wait4=61 uname=63 fsync=74
    fdatasync=75 truncate=76 ftruncate=77 getdents=78 getcwd=79 chdir=80 fchdir=81 rename=82 mkdir=83 rmdir=84
    creat=85 link=86 unlink=87 symlink=88 readlink=89 umask=95 gettimeofday=96 getrlimit=97 getrusage=98
    sysinfo=99 times=100 getuid=102 getgid=104 geteuid=107 getegid=108 getppid=110 getpgrp=111 getgroups=115
    getresuid=118 getresgid=120 getpgid=121 getsid=124 rt_sigpending=127 rt_sigtimedwait=128 rt_sigsuspend=130
    sigaltstack=131 statfs=137 fstatfs=138 getpriority=140 sched_getparam=143 sched_getscheduler=145
    sched_get_priority_max=146 sched_get_priority_min=147 gettid=186 getxattr=191 lgetxattr=192
    fgetxattr=193 listxattr=194 llistxattr=195 flistxattr=196 time=201 sched_getaffinity=204
    epoll_create=213 getdents64=217 set_tid_address=218 restart_syscall=219 clock_gettime=228
    clock_getres=229 clock_nanosleep=230 exit_group=231 epoll_wait=232 epoll_ctl=233 waitid=247 openat=257
    mkdirat=258 newfstatat=262 unlinkat=263 renameat=264 linkat=265 symlinkat=266 readlinkat=267 faccessat=269
    pselect6=270 ppoll=271 set_robust_list=273 epoll_pwait=281 signalfd=282 timerfd_create=283 eventfd=284
    fallocate=285 timerfd_settime=286 timerfd_gettime=287 signalfd4=289 eventfd2=290 epoll_create1=291
    dup3=292 pipe2=293 preadv=295 pwritev=296 getcpu=309 renameat2=316 getrandom=318 membarrier=324
    copy_file_range=326 statx=332 rseq=334 close_range=436 faccessat2=439
    epoll_pwait2=441
    """),
    attributes=_numbers("""
    chmod=90 fchmod=91 utime=132 utimes=235 futimesat=261 fchmodat=268 utimensat=280 fchmodat2=452
    """),
    checked=_numbers("""
    mmap=9 ioctl=16 madvise=28 sendto=44 socketpair=53 getsockopt=55 clone=56 kill=62 fcntl=72 flock=73 prctl=157
    tkill=200 futex=202 fadvise64=221 tgkill=234 prlimit64=302 preadv2=327 pwritev2=328 clone3=435
    setxattr=188 lsetxattr=189 fsetxattr=190 removexattr=197 lremovexattr=198 fremovexattr=199
    """),
    setup=_numbers("""
    sendmsg=46 recvmsg=47 capset=126 pivot_root=155 setrlimit=160 mount=165 unshare=272 setns=308 seccomp=317
    pidfd_open=434
    landlock_create_ruleset=444 landlock_add_rule=445 landlock_restrict_self=446
    """),
    own=_numbers("""
    pivot_root=155 seccomp=317 open_tree=428 move_mount=429 close_range=436 mount_setattr=442
    landlock_create_ruleset=444 landlock_add_rule=445 landlock_restrict_self=446
    """),
    shell=_numbers("""
    fork=57 vfork=58 execve=59 setpgid=109 setsid=112 mknod=133 setpriority=141 arch_prctl=158 setrlimit=160
    timer_create=222 timer_settime=223 timer_gettime=224 timer_getoverrun=225 timer_delete=226 mknodat=259 execveat=322
    epoll_create=213 epoll_create1=291 close_range=436
    """),
    has_x32=True,
)

_AARCH64: Final = Machine(
    audit_arch=0xC00000B7,
    allowed=_numbers("""
    getxattr=8 lgetxattr=9 fgetxattr=10 listxattr=11 llistxattr=12 flistxattr=13 getcwd=17 eventfd2=19
    epoll_create1=20 epoll_ctl=21 epoll_pwait=22 dup=23 dup3=24 mkdirat=34 unlinkat=35 symlinkat=36
    linkat=37 renameat=38 statfs=43 fstatfs=44 truncate=45 ftruncate=46 fallocate=47 faccessat=48 chdir=49
    fchdir=50 openat=56 close=57 pipe2=59 getdents64=61 lseek=62 read=63 write=64 readv=65 writev=66
    pread64=67 pwrite64=68 preadv=69 pwritev=70 sendfile=71 pselect6=72 ppoll=73 signalfd4=74 readlinkat=78
    newfstatat=79 fstat=80 fsync=82 fdatasync=83 timerfd_create=85 timerfd_settime=86 timerfd_gettime=87
    exit=93 exit_group=94 waitid=95 set_tid_address=96 set_robust_list=99 nanosleep=101 getitimer=102
    setitimer=103 clock_gettime=113 clock_getres=114 clock_nanosleep=115 sched_getscheduler=120
    sched_getparam=121 sched_getaffinity=123 sched_yield=124 sched_get_priority_max=125
    sched_get_priority_min=126 restart_syscall=128 sigaltstack=132 rt_sigsuspend=133 rt_sigaction=134
    rt_sigprocmask=135 rt_sigpending=136 rt_sigtimedwait=137 rt_sigreturn=139 getpriority=141 getresuid=148
    getresgid=150 times=153 getpgid=155 getsid=156 getgroups=158 uname=160 getrlimit=163 getrusage=165
    umask=166 getcpu=168 gettimeofday=169 getpid=172 getppid=173 getuid=174 geteuid=175 getgid=176 getegid=177
    gettid=178 sysinfo=179 getsockname=204 getpeername=205 recvfrom=207 shutdown=210 brk=214
    munmap=215 mremap=216 mprotect=226 msync=227 wait4=260 renameat2=276 getrandom=278 membarrier=283
    copy_file_range=285 statx=291 rseq=293 close_range=436 faccessat2=439 epoll_pwait2=441
    """),
    attributes=_numbers("""
    fchmod=52 fchmodat=53 utimensat=88 fchmodat2=452
    """),
    checked=_numbers("""
    fcntl=25 ioctl=29 flock=32 futex=98 kill=129 tkill=130 tgkill=131 prctl=167 socketpair=199 sendto=206
    getsockopt=209 clone=220 mmap=222 fadvise64=223 madvise=233 prlimit64=261 preadv2=286 pwritev2=287 clone3=435
    setxattr=5 lsetxattr=6 fsetxattr=7 removexattr=14 lremovexattr=15 fremovexattr=16
    """),
    setup=_numbers("""
    mount=40 pivot_root=41 capset=91 unshare=97 setrlimit=164 sendmsg=211 recvmsg=212 setns=268 seccomp=277
    pidfd_open=434
    landlock_create_ruleset=444 landlock_add_rule=445 landlock_restrict_self=446
    """),
    own=_numbers("""
    pivot_root=41 seccomp=277 open_tree=428 move_mount=429 close_range=436 mount_setattr=442
    landlock_create_ruleset=444 landlock_add_rule=445 landlock_restrict_self=446
    """),
    shell=_numbers("""
    mknodat=33 timer_create=107 timer_gettime=108 timer_getoverrun=109 timer_settime=110 timer_delete=111
    setpriority=140 setpgid=154 setsid=157 setrlimit=164 execve=221 execveat=281
    epoll_create1=20 close_range=436
    """),
)

MACHINES: Final = {"x86_64": _X86_64, "aarch64": _AARCH64}
"""By `os.uname().machine`."""
