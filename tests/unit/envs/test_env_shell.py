"""The world of shell commands: experts do every job, files stay, what passes a limit is undone, and nothing is believed."""
# ruff: noqa: E501 - commands in one line

import base64
import gzip
import io
import tarfile

import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Task
from evolvent.envs.text import shell
from evolvent.envs.text.shell_tasks import KINDS, job
from evolvent.sandbox import NoSandbox
from evolvent.testing.env import check_env

try:
    shell.make()
except NoSandbox as error:  # pragma: no cover - a machine without a jail
    pytest.skip(f"commands cannot be run here: {error}", allow_module_level=True)


@pytest.fixture(scope="module")
def world():
    env = shell.make()
    yield env
    env.close()


def played(env, task, commands):
    env.reset(task)
    turns = []
    for command in commands:
        turns.append(env.step(command))
        if turns[-1].done:
            break
    return turns


def one(world, kind="count"):
    return next(task for task in world.tasks("train", 40, 0) if task.kind == kind)


def test_the_world_keeps_its_promises():
    env = shell.make(kinds=2, step_limit=5)
    check_env(env, n=2)
    env.close()


def test_tasks_have_their_split_and_come_again(world):
    parts = [world.tasks(split, 900, 0) for split in ("train", "heldout")]
    names = [{t.repeats or t.id for t in some} for some in parts]
    assert not names[0] & names[1] and [len(n) for n in names] == [400, 200] and len({t.id for t in parts[0]}) == 900
    assert {t.kind for t in world.tasks("heldout", 10, 3)} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_expert_does_the_job_and_nobody_else_is_paid(world, kind):
    task = one(world, kind)
    assert played(world, task, [*(f"Command: {said}" for said in world.job(task).expert), "Done."])[-1].success
    turns = played(world, task, [*world.job(task).expert, "done"])
    assert turns[-1].success and turns[-1].reward == 1.0 and turns[-1].terminated, [t.observation for t in turns]
    assert turns[-1].info["rewards"] == {"share": 1.0, "runs": 1.0}
    for commands in (["done"], ["ls", "done"], ["rm -rf *", "done"], ["echo 1 > answer.txt", "done"]):
        end = played(world, task, commands)[-1]
        assert not end.success and end.reward == 0.0, (commands, kind)
    for number in range(40):
        made = job(kind, number)
        files = {name: text.encode() for name, text in made.files.items()}
        assert shell.achieved(made, files) < 1.0, "there is something to do"


def test_files_stay_and_nothing_else_does(world):
    task = one(world)
    turns = played(
        world,
        task,
        [
            "mkdir -p a/b; echo hello > a/b/c.txt; cd a; export X=1; sleep 60 & echo bye > /tmp/z",
            "cat a/b/c.txt; pwd; echo $X",
            "ls a/b /tmp/z; ps aux | grep -c sleep",
            "ln -s a link; rm -r a/b; mkfifo f; ls",
            "ls a; ls link f",
        ],
    )
    assert turns[1].observation.startswith("Output: hello\n")
    assert "c.txt" in turns[2].observation and turns[4].info["exit"] != 0
    assert all(turn.valid and not turn.done for turn in turns)


UNDONE = {
    "never ends": ("rm log.txt; while true; do :; done", "too long"),
    "waits": ("rm log.txt; sleep 100", "too long"),
    "prints a gigabyte": ("rm log.txt; yes | head -c 1000000000", "printed more"),
    "forks": ("rm log.txt; f() { f | f & }; f; sleep 20", "stopped: "),
    "writes a lot": ("rm log.txt; yes | head -c 100000000 > big; sleep 3", "stopped: "),
    "writes too much to keep": ("rm log.txt; yes | head -c 3000000 > big", "more than 1 MB"),
    "many files": ("rm log.txt; for i in $(seq 250); do echo 1 > f$i; done", "stopped: "),
    "ends the shell": ("rm log.txt; kill -9 $$", "stopped: "),
}


@pytest.mark.parametrize("why", UNDONE)
def test_what_passes_a_limit_is_undone_and_ends_a_step_only(world, why):
    command, words = UNDONE[why]
    task = one(world)
    turns = played(world, task, [command, "ls", *world.job(task).expert, "done"])
    assert words in turns[0].observation and "nothing of it was kept" in turns[0].observation
    assert turns[1].observation == "Output: log.txt", turns
    assert turns[-1].success and all(turn.valid for turn in turns)


def test_a_failure_is_reported(world):
    turns = played(world, one(world), ["cat nothing.txt", "false", "", "grep -c zzz log.txt", "$ echo a b", "echo ' '"])
    said = [turn.observation for turn in turns]
    assert "No such file" in said[0] and said[1] == "Output: exit code 1" and said[2] == "Output: no command"
    assert said[4] == "Output: a b" and said[5] == "Output: (none)"
    assert [turn.info["rewards"]["runs"] for turn in turns] == [0, 0, 0, 0, 1, 1]


def test_any_text_is_a_command(world):
    turns = played(world, one(world), ["echo a\0b > new", "cat n\0ew", "\0", "echo \ud800"])
    assert turns[1].observation == "Output: ab" and turns[2].observation == "Output: no command"


def test_long_output_is_cut(world):
    (turn,) = played(world, one(world), ["seq 2000"])
    assert len(turn.observation) < 600 and "characters)" in turn.observation


def test_files_of_the_machine_are_not_there(world):
    (turn,) = played(world, one(world), ["cat /etc/shadow"])
    assert "root:" not in turn.observation and turn.info["rewards"]["runs"] == 0.0


def test_an_attempt_ends_at_its_limit(world):
    env = shell.make(step_limit=5)
    task = one(env)
    expert = world.job(task).expert
    end = played(env, task, [*expert, *["true"] * 9])
    assert len(end) == 5 and end[-1].truncated and not end[-1].terminated and end[-1].success
    end = played(env, task, [*expert, "echo x >> log.txt", "done"])
    assert not end[-1].success, "a file that nobody spoke of was changed"
    with pytest.raises(EnvError):
        env.step("ls")
    with pytest.raises(BadInput, match="not a task"):
        env.reset(Task("a", "a"))
    env.close()


def archive(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, size, kind in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = size, kind, "/etc/passwd"
            tar.addfile(info, io.BytesIO(b"x" * size) if kind == tarfile.REGTYPE else None)
    return out.getvalue()


def test_an_archive_that_nobody_has_read_is_read_with_care():
    files = {"a.txt": b"1\n", "b": None, "b/c": b""}
    assert shell.unpacked(shell.packed(files)) == files and shell.packed(files) == shell.packed(
        dict(reversed(files.items()))
    )
    r = tarfile.REGTYPE
    for bad in (
        b"",
        b"no archive" * 100,
        archive(("../a", 1, r)),
        archive(("/etc/a", 1, r)),
        archive(("a", 2 << 20, r)),
        archive(*((f"f{i}", 0, r) for i in range(201))),
        shell.packed(files)[:700],
    ):
        assert shell.unpacked(bad) in (None, {}), bad[:40]
    links = archive(("a", 0, tarfile.SYMTYPE), ("b", 0, tarfile.LNKTYPE), ("c", 0, tarfile.CHRTYPE), ("d", 1, r))
    assert shell.unpacked(links) == {"d": b"x"}
    huge = bytearray(archive(("a", 1, r)))
    huge[124:136] = b"77777777777\0"  # a size that is not there
    huge[148:156] = b"%06o\0 " % (sum(huge[:148]) + 8 * 32 + sum(huge[156:512]))
    assert shell.unpacked(bytes(huge)) is None


def back(kind, name=b"a"):
    """A header that says its member ends where it begins: a size of minus one block."""
    block = bytearray(tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT))
    block[: len(name)], block[124:136], block[156:157] = name, b"\xff" * 10 + b"\xfe\x00", kind
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + 8 * 32 + sum(block[156:512]))
    return bytes(block)


@pytest.mark.parametrize("kind", [b"0", b"5", b"7", b"Q", b"S", b"x", b"g", b"L", b"K", b"2"])
def test_an_archive_that_leads_back_to_where_it_was_is_none(kind):
    bad = tarfile.TarInfo("b").tobuf(tarfile.GNU_FORMAT) + back(kind) + bytes(1024)
    assert shell.unpacked(bad) is None
    assert shell.unpacked(shell.packed({"b": b"1"})[:1024] + back(kind)) is None


def test_long_and_foreign_names_come_back():
    files = {"f" * 90 + "/" + "g" * 90: b"1", "é/\udcff": b"2", "f" * 90: None, "é": None}
    assert shell.unpacked(shell.packed(files)) == files
    long = tarfile.TarInfo("a" * 5000).tobuf(tarfile.GNU_FORMAT)
    assert shell.unpacked(long + bytes(1024)) is None


def test_the_archive_of_a_command_is_never_its_own(world):
    """GNU tar does not write over a file that it may not write to, or a folder."""
    bad = base64.b64encode(gzip.compress(back(b"Q") + bytes(1024))).decode()
    long = "d" * 120
    turns = played(
        world,
        one(world),
        [
            f"echo {bad} | base64 -d | gzip -d > .state.tar; chmod 444 .state.tar",
            "mkdir -p .state.tar/a; ls",
            "ls -A",
            f"mkdir {long} é; echo 1 > {long}/ö",
            f"cat {long}/*; ls",
        ],
    )
    assert [turn.observation for turn in turns[:3]] == ["Output: (none)", "Output: log.txt", "Output: log.txt"]
    assert turns[4].observation.startswith("Output: 1\n" + long) and all(turn.valid for turn in turns)


@pytest.mark.parametrize("spec", ["shell:kinds=11", "shell:step_limit=1", "shell:root=yes"])
def test_unknown_options_are_refused(spec):
    with pytest.raises(BadInput):
        envs.load(spec)
