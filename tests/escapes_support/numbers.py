"""System-call numbers that attacks use, by machine. From the kernel's own tables."""

from __future__ import annotations

from typing import Final


def _numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (pair.split("=") for pair in text.split())}


NUMBERS: Final = {
    "x86_64": _numbers("""
    shmget=29 shmat=30 madvise=28 socket=41 clone=56 fork=57 vfork=58 execve=59 kill=62 semget=64 msgget=68 ptrace=101
    setuid=105 syslog=103 setsid=112 mknod=133 personality=135 setpriority=141 sched_setscheduler=144 mlock=149
    modify_ldt=154 arch_prctl=158 futex=202 pivot_root=155 prctl=157 acct=163 setrlimit=160 chroot=161 settimeofday=164 mount=165 umount2=166 swapon=167
    reboot=169 sethostname=170 ioperm=173 init_module=175 quotactl=179 tkill=200 add_key=248 keyctl=250 getpid=39
    setxattr=188 mbind=237 mq_open=240 kexec_load=246 inotify_init1=294 unshare=272 splice=275 tee=276 vmsplice=278
    rt_tgsigqueueinfo=297 perf_event_open=298 fanotify_init=300 prlimit64=302 name_to_handle_at=303
    open_by_handle_at=304 setns=308 process_vm_readv=310 kcmp=312 seccomp=317 memfd_create=319 bpf=321 execveat=322
    userfaultfd=323 pidfd_send_signal=424 io_uring_setup=425 open_tree=428 fsopen=430 pidfd_open=434 clone3=435
    pidfd_getfd=438 rt_sigqueueinfo=129 sched_setaffinity=203 landlock_create_ruleset=444 tgkill=234 clock_settime=227
    """),
    "aarch64": _numbers("""
    setxattr=5 inotify_init1=26 mknodat=33 umount2=39 mount=40 pivot_root=41 chroot=51 quotactl=60 vmsplice=75
    splice=76 tee=77 acct=89 personality=92 unshare=97 futex=98 kexec_load=104 init_module=105 clock_settime=112 syslog=116
    ptrace=117 sched_setscheduler=119 sched_setaffinity=122 kill=129 tkill=130 tgkill=131 rt_sigqueueinfo=138
    setpriority=140 reboot=142 setuid=146 setsid=157 sethostname=161 setrlimit=164 prctl=167 settimeofday=170
    getpid=172 mq_open=180 msgget=186 semget=190 shmget=194 shmat=196 socket=198 add_key=217 keyctl=219 clone=220
    execve=221 swapon=224 mlock=228 madvise=233 mbind=235 rt_tgsigqueueinfo=240 perf_event_open=241 prlimit64=261 fanotify_init=262
    name_to_handle_at=264 open_by_handle_at=265 setns=268 process_vm_readv=270 kcmp=272 seccomp=277 memfd_create=279
    bpf=280 execveat=281 userfaultfd=282 pidfd_send_signal=424 io_uring_setup=425 open_tree=428 fsopen=430
    pidfd_open=434 clone3=435 pidfd_getfd=438 landlock_create_ruleset=444
    """),
}
