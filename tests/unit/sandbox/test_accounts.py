"""What a program takes is counted, however it hides it; and ordinary tools work."""

import shutil

import pytest

from evolvent.sandbox import Limits, NoSandbox, Sandbox

MB = 1 << 20


@pytest.fixture(scope="module", params=["own", "own+ns"])
def mechanism(request):
    return request.param


def opened(profile, mechanism):
    try:
        return Sandbox(profile, mechanism=mechanism, warm=0)
    except NoSandbox as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def python(mechanism):
    with opened("python", mechanism) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def tools(mechanism):
    with opened("tools", mechanism) as sandbox:
        yield sandbox


def code(sandbox, text, limits=Limits()):
    return sandbox.run({"main.py": text}, ["python", "main.py"], limits)


def shell(sandbox, text, limits=Limits()):
    return sandbox.run({"main.sh": text}, [shutil.which("bash") or "sh", "main.sh"], limits)


TRY = """
import ctypes, mmap, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def tried(number, *values):
    ctypes.set_errno(0)
    return libc.syscall(number, *values), ctypes.get_errno()
"""


def test_memory_that_no_process_has_mapped_cannot_be_had(python):
    text = (
        TRY
        + """
for how in (lambda: mmap.mmap(-1, 9), lambda: mmap.mmap(os.open('/dev/zero', os.O_RDONLY), 9, prot=mmap.PROT_READ)):
    try: print('mapped', how())
    except OSError as error: print(type(error).__name__)
print(len(mmap.mmap(-1, 9, mmap.MAP_PRIVATE)))
"""
    )
    *refused, private = code(python, text).stdout.split()
    assert "mapped" not in refused and len(refused) == 2 and private == "9"


@pytest.mark.parametrize(
    "attempt",
    [
        "tried(285, os.open('f', os.O_CREAT | os.O_RDWR), 1, 0, 1 << 30)",  # fallocate, beyond the end
        "tried(436, 5000, 5001, 2)",  # close_range: open files of one's own
        "tried(56, 0x10000 | 0x800 | 0x100, 0, 0, 0, 0)",  # clone: a thread with open files of its own
        "tried(55, socket.socketpair()[0].fileno(), 1, 77, *[ctypes.byref(ctypes.c_int(4))] * 2)",
    ],
)
def test_what_would_not_be_counted_is_refused(python, attempt):
    if python.describe().facts["kernel"].split()[-1] != "x86_64":
        pytest.skip("numbers of system calls")
    assert code(python, f"{TRY}\nprint({attempt})").stdout in ("(-1, 1)\n", "(-1, 95)\n")


def test_deleted_files_count_once_and_mapped_ones_count(python):
    once = """
import mmap
f = open('a', 'w+b'); f.write(bytes(9 << 20)); f.flush(); import os; os.unlink('a'); m = mmap.mmap(f.fileno(), 0)
import time; time.sleep(.3)
"""
    assert code(python, once, Limits(disk=12 * MB)).ok
    many = """
import mmap, os, time
held = []
for i in range(20):
    with open('a', 'w+b') as f: f.write(bytes(8 << 20)); f.flush(); held.append(mmap.mmap(f.fileno(), 4096))
    os.unlink('a')
time.sleep(5)
"""
    assert code(python, many, Limits(disk=64 * MB)).status == "disk"


def test_as_many_threads_as_the_limit_says(python):
    text = """
import threading
gate = threading.Barrier(31)
ts = [threading.Thread(target=lambda: (bytearray(9), gate.wait())) for _ in range(30)]
[t.start() for t in ts]; gate.wait(); [t.join() for t in ts]; print('all')
"""
    assert code(python, text).stdout == "all\n"


def test_time_of_children_that_nobody_waits_for_counts(tools):
    perl = shutil.which("perl")
    if perl is None:
        pytest.skip("a shell waits for its children; perl does not")
    text = (
        "$SIG{CHLD} = 'IGNORE'; for (1..40) { if (!fork) { my $t = times; 1 while (times)[0] - $t < .3; exit } wait }"
    )
    result = tools.run({"main.pl": text}, [perl, "main.pl"], Limits(cpu=1.0, wall=30.0))
    assert (result.status, result.limit) == ("time", "cpu") and 0.9 < result.cpu_seconds < 3


def test_processes_that_are_done_do_not_count(tools):
    result = shell(tools, "for i in $(seq 60); do (true &) ; done; echo done", Limits(processes=8))
    assert (result.status, result.stdout) == ("ok", "done\n"), result


@pytest.mark.parametrize(
    ("needs", "text", "says"),
    [
        ("cp", "echo a > a; cp -p a b; cp -a a c; install -m 600 a d && cat b c d", "a\na\na\n"),
        ("mkfifo", "mkfifo p; echo through > p & cat p", "through\n"),
        ("make", "printf 'all:\\n\\t@echo made\\n' > Makefile; make", "made\n"),
        ("sed", "echo a > a; sed -i s/a/b/ a; cat a", "b\n"),
    ],
)
def test_ordinary_tools(tools, needs, text, says):
    if shutil.which(needs) is None:
        pytest.skip(f"no {needs}")
    result = shell(tools, text)
    assert (result.status, result.stdout) == ("ok", says), result


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("timeout 0.2 sleep 5; echo $?", "124\n"),
        ("head -c 3 /dev/zero | od -An -tx1", " 00 00 00\n"),
        ("diff <(echo a) <(echo a) && echo same | tee /dev/stderr", "same\n"),
        ("echo in | cat /dev/stdin > /dev/stdout", "in\n"),
        ("echo a > /dev/shm/x; cat /dev/shm/x", "a\n"),
    ],
)
def test_what_needs_a_view_of_its_own(tools, text, says):
    if tools.mechanism.name != "own+ns":
        pytest.skip("process groups, devices")
    if "/dev/std" in text and not tools.mechanism.landlock:
        pytest.skip("no /proc stays without Landlock")
    result = shell(tools, text)
    assert (result.status, result.stdout) == ("ok", says), result


def test_how_far_a_fork_bomb_gets_is_said_and_kept(tools, monkeypatch):
    says = str(tools.describe())
    assert "a fork bomb has for a moment as many as the limits of processes and threads allow together" in says
    text = "import os\nwhile True:\n try:\n  if os.fork() == 0: os.write(1, b'x')\n except OSError: pass"
    found = code(tools, text, Limits(processes=4, threads=6, wall=5.0))
    assert found.status in ("processes", "memory", "time"), found
    assert len(found.stdout) <= 4 + 6 + (99 if "and 64 more" in says else 2)  # others of the user end meanwhile
