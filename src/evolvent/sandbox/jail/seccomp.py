"""The list of system calls that a confined program has; every other one is refused, also those of kernels to come.

The filter is a program of the classic packet filter. Refused calls are answered by the slot (which counts them, so that
a result can say what was refused) or, where the kernel allows no listener, by the filter itself.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from typing import NamedTuple

from .kernel import LIBC, MACHINE, NUMBERS, PR_SET_NO_NEW_PRIVS, JailError, prctl, syscall


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_BASE = _names("""
read write close fstat stat lstat newfstatat statx poll ppoll lseek mprotect munmap brk rt_sigaction
rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pread64 pwrite64 readv writev
preadv pwritev preadv2 pwritev2 access faccessat faccessat2 pipe pipe2 select pselect6 sched_yield mremap msync
mincore madvise dup dup2 dup3 pause nanosleep clock_nanosleep getitimer setitimer alarm getpid gettid getppid getpgrp
getpgid getsid sendfile exit exit_group wait4 waitid uname flock fsync fdatasync truncate ftruncate getdents64 getcwd
chdir fchdir rename renameat renameat2 mkdir mkdirat rmdir creat open openat unlink unlinkat link linkat symlink
symlinkat readlink readlinkat umask gettimeofday getrusage sysinfo times time getuid getgid geteuid getegid getgroups
getresuid getresgid set_tid_address set_robust_list futex futex_waitv sched_getaffinity sched_getparam
sched_getscheduler sched_get_priority_max sched_get_priority_min getpriority clock_gettime clock_getres epoll_create1
epoll_create epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd2 timerfd_create timerfd_settime timerfd_gettime
getrlimit setrlimit arch_prctl getrandom restart_syscall rseq membarrier copy_file_range fadvise64 statfs fstatfs getcpu
recvfrom recvmsg sendto shutdown getsockname getpeername
""")
_TOOLS = ("fork", "vfork", "execve")
_BROWSER = _names("sendmsg setpriority bind listen")
"""Its processes hand each other memory and open files, over pairs of sockets that lead nowhere else."""
_OWNER = ("chmod", "fchmod", "fchmodat", "utimensat")
"""Landlock does not cover these: real where the program owns nothing outside, else they pretend, for ld and shutil."""
_XATTR = _names("""
getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr removexattr lremovexattr
fremovexattr
""")
"""Not covered by Landlock either: attributes of files outside could be read. "Not supported", which cp -p bears."""
_REFUSED = _names("""
socket connect bind listen accept accept4 sendmsg sendmmsg setsockopt ptrace setsid setpgid chown fchown lchown
fchownat setuid setgid setresuid setresgid setreuid setregid setgroups mount umount2 pivot_root chroot unshare setns
execve execveat fork vfork mknod mknodat
""")
"""Answered "not permitted"; what is in no list is answered "no such call", so that libraries take their other way."""

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LD, _JEQ, _JGE, _RET, _AND = 0x20, 0x15, 0x35, 0x06, 0x54
_ALLOW, _KILL, _ERR, _NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_NEW_NAMESPACE = 0x7E020080 | 0x02000000
_UNTRACED, _PTRACE, _PARENT, _THREAD, _FILES = 0x00800000, 0x2000, 0x8000, 0x10000, 0x400
_SHARED_ANONYMOUS = 0x21
_F_OWN = (8, 10, 15, 1024, 1026)  # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY: signals to anyone of the user
_SO_PEER = (17, 77)  # SO_PEERCRED, SO_PEERPIDFD: who made the pair of sockets that it was given
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x540F)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TIOCGPGRP: questions and flags, nothing that types."""
_PRCTLS = (3, 15, 16, 23, 39, 0x53564D41)  # dumpable? set and get name, bounding set?, no new privileges?, name memory
_MAGIC = 0x5AFE1234  # stands for the program's pid until it is known

Condition = tuple[int, int | None, int]  # argument, mask or None, value


class Filter(NamedTuple):
    """What depends on how else a program is confined."""

    tools: bool  # may start processes and programs
    browser: bool  # also what Chromium needs
    scoped: bool  # the kernel keeps signals inside: Landlock ABI 6 or a process namespace
    truncation: bool  # the kernel keeps truncation inside: Landlock ABI 3 or read-only mounts
    groups: bool  # process groups may be made: a namespace ends all of them at once
    owner: bool  # files outside may belong to the program's user: chmod only pretends
    notify: bool  # refused calls go to a listener


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value & 0xFFFFFFFF)


class _Program:
    def __init__(self, notify: bool) -> None:
        self.steps: list[bytes] = []
        self.notify = notify

    def refusal(self, error: int) -> int:
        return _NOTIFY if self.notify else _ERR | error

    def answer(self, name: str, action: int) -> None:
        if name in NUMBERS:
            self.steps += [_step(_JEQ, NUMBERS[name], 0, 1), _step(_RET, action)]

    def only_if(self, name: str, alternatives: list[list[Condition]], otherwise: int) -> None:
        """Allowed if every condition of one alternative holds."""
        if name not in NUMBERS:
            return
        body: list[bytes] = []
        for conditions in alternatives:
            block: list[bytes] = []
            length = sum(2 + (mask is not None) for _, mask, _ in conditions) + 1
            for index, mask, value in conditions:
                block.append(_step(_LD, 16 + 8 * index))
                if mask is not None:
                    block.append(_step(_AND, mask))
                block.append(_step(_JEQ, value, 0, length - len(block) - 1))
            body += [*block, _step(_RET, _ALLOW)]
        body.append(_step(_RET, otherwise))
        if len(body) > 255:
            raise JailError(errno.E2BIG, f"filter of {name}")
        self.steps += [_step(_JEQ, NUMBERS[name], 0, len(body)), *body]

    def never(self, name: str, index: int, mask: int, values: tuple[int, ...], otherwise: int) -> None:
        """Refused if the masked argument is one of ``values``, else allowed."""
        if name not in NUMBERS:
            return
        count = len(values)
        tests = [_step(_JEQ, value, count - i, 0) for i, value in enumerate(values)]
        body = [_step(_LD, 16 + 8 * index), _step(_AND, mask), *tests, _step(_RET, _ALLOW), _step(_RET, otherwise)]
        self.steps += [_step(_JEQ, NUMBERS[name], 0, len(body)), *body]


def build(f: Filter) -> bytes:
    """The filter as bytes, with ``_MAGIC`` where the program's pid belongs."""
    p = _Program(f.notify)
    no, unknown = p.refusal(errno.EPERM), p.refusal(errno.ENOSYS)
    p.steps += [_step(_LD, 4), _step(_JEQ, _AUDIT_ARCH[MACHINE], 1, 0), _step(_RET, _KILL), _step(_LD, 0)]
    if MACHINE == "x86_64":  # the x32 numbers
        p.steps += [_step(_JGE, 0x40000000, 0, 1), _step(_RET, _KILL)]
    allowed = [*_BASE, *(_TOOLS if f.tools else ()), *(_BROWSER if f.browser else ()), *(() if f.owner else _OWNER)]
    if f.tools and f.groups:
        allowed += ["setpgid", "setsid"]
    if f.browser:
        allowed += ["mmap", "getsockopt"]
    if not f.truncation:
        allowed = [name for name in allowed if name not in ("truncate", "open", "openat")]
        p.answer("truncate", no)
        for name, index in (("open", 1), ("openat", 2)):  # O_RDONLY | O_TRUNC empties a readable file
            p.never(name, index, 0o1003, (0o1000,), no)
    for name in allowed:
        p.answer(name, _ALLOW)
    for name in _OWNER if f.owner else ():
        p.answer(name, _ERR | 0)
    for name in _XATTR:
        p.answer(name, _ERR | errno.EOPNOTSUPP)
    p.answer("clone3", _ERR | errno.ENOSYS)  # its flags cannot be read here; glibc falls back to clone
    _arguments(p, f, no)
    for name in _REFUSED:
        if name not in allowed and not (name in ("socket", "setsockopt") and f.browser):
            p.answer(name, no)
    p.steps.append(_step(_RET, unknown))
    return b"".join(p.steps)


def _arguments(p: _Program, f: Filter, no: int) -> None:
    """Calls that are allowed with some arguments only."""
    own: list[list[Condition]] = [[(0, None, 0)], [(0, None, _MAGIC)]]
    strange = _NEW_NAMESPACE | _UNTRACED | _PTRACE | _PARENT
    thread: Condition = (0, strange | _THREAD | _FILES, _THREAD | _FILES)  # open files of its own would not be counted
    p.only_if("clone", [[thread], [(0, strange | _THREAD, 0)]] if f.tools else [[thread]], no)
    p.never("close_range", 2, 2, (2,), no)  # CLOSE_RANGE_UNSHARE: the same
    p.only_if("fallocate", [[(1, None, 0)]], _ERR | errno.EOPNOTSUPP)  # others take room beyond a file's end
    if not f.browser:
        p.never("mmap", 3, _SHARED_ANONYMOUS, (_SHARED_ANONYMOUS,), no)  # once unmapped, its pages are nobody's memory
        p.never("getsockopt", 2, 0xFFFFFFFF, _SO_PEER, no)
    if f.tools:
        for name in ("setresuid", "setresgid"):  # what a spawn resets: the effective one, to what the process has
            p.only_if(name, [[(0, None, 0xFFFFFFFF), (2, None, 0xFFFFFFFF)]], no)
        for name, index in (("mknod", 1), ("mknodat", 2)):
            p.only_if(name, [[(index, 0o170000, 0o010000)]], no)  # a pipe
    if f.tools and f.scoped:
        for name in ("kill", "tkill", "tgkill"):
            p.answer(name, _ALLOW)
    else:
        p.only_if("kill", own, no)
        p.only_if("tgkill", [[(0, None, _MAGIC)]], no)
    p.only_if("prlimit64", own, no)
    p.only_if("sched_setaffinity", own, no)
    if f.browser:  # SO_PASSCRED and the sizes of buffers
        p.only_if("socket", [[(0, None, 1), (1, 0xF, 1)]], no)  # its lock; nothing connects
        p.only_if("setsockopt", [[(1, None, 1), (2, None, option)] for option in (7, 8, 16)], no)
    p.only_if("prctl", [[(0, None, option)] for option in _PRCTLS], _ERR | errno.EINVAL)
    p.only_if("ioctl", [[(1, None, request)] for request in _IOCTLS], _ERR | errno.ENOTTY)
    p.never("fcntl", 1, 0xFFFFFFFF, _F_OWN, no)
    kinds = (1, 5) if f.browser else (1,)  # streams and packets; never datagrams, which can be sent to any address
    p.only_if("socketpair", [[(0, None, 1), (1, 0xF, kind)] for kind in kinds], no)


def install(program: bytes, pid: int, *, notify: bool) -> int:
    """Bind this process. Returns the listener's file descriptor, or -1.

    Raises:
        JailError: the kernel refused; EBUSY where another listener is in place already.
    """
    program = program.replace(struct.pack("=I", _MAGIC), struct.pack("=I", pid))
    buffer = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    return syscall("seccomp", 1, 8, head) if notify else syscall("seccomp", 1, 0, head) - 1


NAMES = {number: name for name, number in NUMBERS.items()}
_SOME = _names("""
clone kill tgkill prlimit64 sched_setaffinity fcntl socketpair truncate open openat mmap close_range getsockopt
""")
"""Answered so where ``_arguments`` and ``build`` refuse them."""
_NOT_PERMITTED = frozenset(NUMBERS[name] for name in (*_REFUSED, *_SOME) if name in NUMBERS)
_RECEIVE, _SEND = 0xC0502100, 0xC0182101


def answer_one(listener: int, counts: dict[str, int]) -> None:
    """Answer one refused call that waits at ``listener``, and count it by name."""
    buffer = ctypes.create_string_buffer(80)
    if LIBC.ioctl(ctypes.c_int(listener), ctypes.c_ulong(_RECEIVE), buffer) != 0:
        return  # its program died meanwhile
    ticket, _, _, number = struct.unpack_from("=QIIi", buffer.raw)
    name = NAMES.get(number, f"call {number}")
    if name in counts or len(counts) < 100:
        counts[name] = counts.get(name, 0) + 1
    error = errno.EPERM if number in _NOT_PERMITTED else errno.ENOSYS
    LIBC.ioctl(ctypes.c_int(listener), ctypes.c_ulong(_SEND), struct.pack("=QqiI", ticket, 0, -error, 0))
