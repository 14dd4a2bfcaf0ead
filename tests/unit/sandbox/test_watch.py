"""What a slot sees of processes that end, hide or go on without their first thread, and of folders that hide."""

import contextlib
import ctypes
import os
import select
import signal
import threading
import time
from pathlib import Path

import pytest

from evolvent.sandbox.jail import tree, watch

MB = 1 << 20
NOBODY = 65534


@pytest.fixture
def proc():
    fd = os.open("/proc", os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@contextlib.contextmanager
def child(act):
    """A process that has done ``act`` and waits; its number, and what ends it for good."""
    for _ in range(3):  # a fork of a process with threads may wait for ever for one that it does not have
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                act(lambda tell=tell: os.write(tell, b"1"))
                os.write(tell, b"1")
                time.sleep(60)
            finally:
                os._exit(1)
        os.close(tell)
        if select.select([told], [], [], 20)[0]:
            break
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(told)
    assert os.read(told, 1) == b"1"
    os.close(told)

    def end():
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    try:
        yield pid, end
    finally:
        end()


LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = ctypes.c_void_p
_KEPT = []


def unnamed(tmp_path, mapped=False):
    """A megabyte of a file without a name, open or only mapped."""
    path = tmp_path / "x"
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    os.write(fd, bytes(MB))
    path.unlink()
    if mapped:
        LIBC.mmap(None, ctypes.c_size_t(MB), 1, 1, fd, 0)
        os.close(fd)


def holds(tmp_path):
    unnamed(tmp_path)
    unnamed(tmp_path, mapped=True)


def without_its_first_thread(tmp_path, told):
    def goes_on():
        while Path("/proc/self/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.001)
        _KEPT.append(bytearray(b"1") * (8 * MB))
        holds(tmp_path)
        told()
        time.sleep(60)

    threading.Thread(target=goes_on).start()
    LIBC.pthread_exit(None)


def hides(tmp_path):
    if os.geteuid() == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)
    LIBC.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE, as the exec of a file that may not be read has it


def as_another(found):
    """``found()`` of an ordinary user, who may read no other's process: as root in a child, which becomes one."""
    if os.geteuid() != 0:
        return found()
    told, tell = os.pipe()
    if os.fork() == 0:
        try:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(tell, str(found()).encode())
        finally:
            os._exit(0)
    os.wait()
    os.close(tell)
    with open(told) as file:
        return int(file.read())


def test_what_has_no_name_is_counted_open_and_mapped_and_without_the_first_thread(tmp_path, proc, folder):
    for act in (lambda _: holds(tmp_path), lambda told: without_its_first_thread(tmp_path, told)):
        with child(act) as (pid, _):
            assert 8 * MB <= watch.deleted_bytes(proc, [pid], folder, 7 * MB) < 9 * MB  # of a fork of this process
            assert watch.use(proc, [pid]).memory > 8 * MB


def test_a_process_that_hides_what_it_holds_holds_more_than_any_limit(tmp_path, proc, folder):
    os.chmod(tmp_path, 0o755)
    with child(lambda _: hides(tmp_path)) as (pid, end):
        assert as_another(lambda: watch.deleted_bytes(proc, [pid], folder, MB)) == tree.UNKNOWN
        limits = {"disk": 1 << 49, "inodes": 99, "file": MB}
        end()
        assert watch.deleted_bytes(proc, [pid], folder, MB) == 0
    assert watch.Watch(limits, proc, folder, (1, 1)).files([pid]) is None


CALLS = ("open", "read", "listdir", "stat", "readlink", "fstat")


@pytest.mark.parametrize(("leader", "wait"), [(True, True), (True, False), (False, True)])
def test_a_process_may_end_before_any_look_at_it(tmp_path, proc, folder, monkeypatch, leader, wait):
    """It ends before the first call of the system, before the second, …: nothing is raised, nothing is counted."""
    act = (lambda _: holds(tmp_path)) if leader else (lambda told: without_its_first_thread(tmp_path, told))
    calls = 0
    for at in range(200):
        with child(act) as (pid, end), monkeypatch.context() as patched:
            done = 0

            def counted(real, at=at, pid=pid, end=end):
                def call(*given, **named):
                    nonlocal done
                    done += 1
                    if done == at + 1:
                        os.kill(pid, signal.SIGKILL)
                        if wait:
                            end()
                        else:  # it is dead, and its parent has not asked for it
                            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
                    return real(*given, **named)

                return call

            for name in CALLS:
                patched.setattr(watch.os, name, counted(getattr(os, name)))
            limits = {
                "wall": None,
                "memory": 1 << 40,
                "cpu": 99,
                "processes": 9,
                "threads": 9,
                "disk": 1 << 40,
                "inodes": 1 << 40,
                "file": MB,
            }
            looks = watch.Watch(limits, proc, folder, (os.getpid(), pid))
            looks.started -= 1
            assert looks.look(tools=False) is None
            assert watch.use(proc, [pid]).processes in (0, 1)
            calls = done
        if at > calls:
            break
    assert calls > 10, "the calls were seen"


@pytest.mark.parametrize("mode", [0o300, 0o311, 0o1300, 0o000, 0o100, 0o200, 0o444])
def test_folders_that_may_not_be_read_are_counted_and_keep_their_modes(tmp_path, folder, mode):
    deep = tmp_path / "d/e"
    deep.mkdir(parents=True)
    for path in (tmp_path / "d/a", deep / "b"):
        path.write_bytes(bytes(MB))
    for path, its in ((deep, 0o300), (tmp_path / "d", mode)):
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        path.chmod(its)
    os.chmod(tmp_path, 0o755)
    found = as_another(lambda: tree.size(folder, 1 << 40, 1000)[0])
    assert found == tree.UNKNOWN if not mode & 0o100 else 2 * MB <= found < 3 * MB
    assert (tmp_path / "d").stat().st_mode & 0o7777 == mode
    (tmp_path / "d").chmod(0o700)
    assert deep.stat().st_mode & 0o7777 == 0o300
    deep.chmod(0o700)


def test_a_folder_of_another_user_counts_as_over_the_limit(tmp_path, folder):
    if os.geteuid() != 0:
        pytest.skip("only root has folders of two users")
    (tmp_path / "d").mkdir(mode=0o700)
    os.chmod(tmp_path, 0o755)
    assert as_another(lambda: tree.size(folder, 1 << 40, 1000)[0]) == tree.UNKNOWN


def test_a_link_in_the_place_of_a_folder_that_may_not_be_read_changes_nothing_outside(tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    work = tmp_path / "work"
    work.mkdir()
    (work / "d").mkdir(mode=0o300)
    opened = os.open

    def swaps(name, flags, **more):
        if name == "d" and flags & os.O_PATH == 0:
            (work / "d").rename(work / "e")
            (work / "d").symlink_to(outside)
            raise PermissionError(13, "as an ordinary user is told")
        return opened(name, flags, **more)

    monkeypatch.setattr(tree.os, "open", swaps)
    root = opened(work, os.O_RDONLY)
    assert tree.size(root, 1 << 40, 100)[1] <= 2
    assert outside.stat().st_mode & 0o777 == 0o500
    os.close(root)
