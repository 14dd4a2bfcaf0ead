"""What a slot sees of processes that end, hide or go on without their first thread, and of folders that hide."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evolvent.sandbox.jail import tree, watch

HOLDING = Path(__file__).with_name("holding.py")
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
def child(act, folder):
    """A process that has done ``act`` of ``holding.py`` and waits; its number, and what ends it for good."""
    process = subprocess.Popen([sys.executable, "-I", "-S", HOLDING, act, folder], stdout=subprocess.PIPE)

    def end():
        process.kill()
        process.wait()

    try:
        assert process.stdout.readline() == b"1\n"
        yield process.pid, end
    finally:
        end()
        process.stdout.close()


def as_another(found):
    """``found()`` of an ordinary user, who may read no other's process: as root in a child, which becomes one."""
    if os.geteuid() != 0:
        return found()
    reading, tell = os.pipe()
    if os.fork() == 0:
        try:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(tell, str(found()).encode())
        finally:
            os._exit(0)
    os.wait()
    os.close(tell)
    with open(reading) as file:
        return int(file.read())


def test_what_has_no_name_is_counted_open_and_mapped_and_without_the_first_thread(tmp_path, proc, folder):
    for act in ("holds", "without_its_first_thread"):
        with child(act, tmp_path) as (pid, _):
            assert 8 * MB <= watch.deleted_bytes(proc, [pid], folder, 7 * MB) < 9 * MB
            assert watch.use(proc, [pid]).memory > 8 * MB


def test_a_process_that_hides_what_it_holds_holds_more_than_any_limit(tmp_path, proc, folder):
    os.chmod(tmp_path, 0o755)
    with child("hides", tmp_path) as (pid, end):
        assert as_another(lambda: watch.deleted_bytes(proc, [pid], folder, MB)) == tree.UNKNOWN
        limits = {"disk": 1 << 49, "inodes": 99, "file": MB}
        end()
        assert watch.deleted_bytes(proc, [pid], folder, MB) == 0
    assert watch.Watch(limits, proc, folder, (1, 1)).files([pid]) is None


CALLS = ("open", "read", "listdir", "stat", "readlink", "fstat")


@pytest.mark.parametrize(("leader", "wait"), [(True, True), (True, False), (False, True)])
def test_a_process_may_end_before_any_look_at_it(tmp_path, proc, folder, monkeypatch, leader, wait):
    """It ends before the first call of the system, before the second, …: nothing is raised, nothing is counted."""
    act = "holds" if leader else "without_its_first_thread"
    calls = 0
    for at in range(200):
        with child(act, tmp_path) as (pid, end), monkeypatch.context() as patched:
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
                "cpu": 1 << 40,  # all children of this process count, those of other tests, too
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
