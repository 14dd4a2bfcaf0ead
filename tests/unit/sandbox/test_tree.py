"""Files of a program that are read from outside: what its folders and links cost and where they lead."""

import os
import resource

import pytest

from evolvent.sandbox.jail import tree


def test_many_folders_take_no_descriptor_each_and_links_on_the_way_are_not_followed(tmp_path):
    work = tmp_path / "work"
    for i in range(300):
        (work / f"d{i}/e").mkdir(parents=True)
    (work / "d7/e/a.txt").write_text("x")
    (tmp_path / "a.txt").write_text("outside")
    (work / "link").symlink_to(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    root = os.open(work, os.O_RDONLY)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 9, hard))
        assert tree.take(root, ["*.txt"], 1 << 20, 1000) == ({"d7/e/a.txt": b"x"}, [])
        assert tree.size(root, 1 << 30, 5000)[1] == 602
        assert tree.size(root, 1 << 30, 100)[1] == 101
        with pytest.raises(OSError, match="link"):
            tree._inner(root, "link/")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(root)


def test_a_tree_that_is_moved_while_it_is_measured_is_followed(tmp_path, monkeypatch):
    deep = tmp_path / "a"
    for _ in range(100):
        deep = deep / "b"
    deep.mkdir(parents=True)
    read, listdir = [], os.listdir

    def moves(fd):
        read.append(fd)
        if len(read) == 4:
            (tmp_path / "a").rename(tmp_path / "c")
        return listdir(fd)

    monkeypatch.setattr(tree.os, "listdir", moves)
    root = os.open(tmp_path, os.O_RDONLY)
    assert tree.size(root, 1 << 30, 200)[1] == 201, "too deep"
    os.close(root)
