"""A shell in the sandbox: small jobs on files, a command a step; what is there in the end decides.

After InterCode's Bash world (Yang et al. 2023, arXiv 2306.14898): commands are run, their output is shown, files stay
from one to the next, ``done`` ends the attempt. Every command begins in the same folder and in a process of its own;
what it left running is ended. Whether the job is done is read off the files from outside: the words of the files asked
for, and no other file changed. A command that passes a limit (5 s, 64 KB of output, 1 MB of files, 16 processes) is
undone, and its step says so.

Reward 1 for a job that is done, else 0; kinds of reward: ``share`` of the files asked for that are right, ``runs`` (the
command ended with exit code 0), for each step.
"""

from __future__ import annotations

import dataclasses
import io
import random
import signal
import tarfile
from collections.abc import Mapping
from itertools import cycle, islice

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._places import Place
from evolvent.envs.text._text import TextEnv, check_limit, check_request, is_done, named, playing, unlabelled
from evolvent.envs.text.shell_tasks import KINDS, Job, job
from evolvent.sandbox import Limits, Result, Sandbox
from evolvent.sandbox.mechanisms import choose

NUMBERS = 60
"""Jobs of each kind; every third one is held out."""
INSTRUCTIONS = """Do jobs on files with shell commands, one in each line. Write done when the job is done.

Task: Write the first line of poem.txt into first.txt.
Files: poem.txt
Command: head -n 1 poem.txt > first.txt
Output: (none)
Command: done

Task: Write how many files there are in the folder box into answer.txt.
Files: box/a.txt box/b.txt
Command: ls box | wc -l
Output: 2
Command: echo 2 > answer.txt
Output: (none)
Command: done

"""
LIMITS = Limits(wall=5.0, cpu=3.0, memory=256 << 20, output=1 << 16, disk=8 << 20, file=4 << 20, inodes=300)
STATE, MOST_BYTES, MOST_FILES, SHOWN = ".state.tar", 1 << 20, 200, 500
_LONGEST, _BLOCK = 4096, 512
_SCRIPT = f"""tar xf {STATE} && rm {STATE} || exit 125
( eval "$1" ) < /dev/null 2>&1
code=$?
rm -rf {STATE}
tar cf {STATE} --format=gnu --exclude=./{STATE} .
exit $code"""
_STOPPED = {
    "time": "it took too long",
    "output": "it printed more than 64 KB",
    "memory": "it took too much memory",
    "processes": "it started too many processes",
    "disk": "it wrote too much",
    "crashed": "the shell was ended",
}
Files = dict[str, bytes | None]
"""Path → content; ``None`` = a folder."""
_PLACE = Place(lambda: Sandbox("tools"))


class Shell(TextEnv):
    """The world; ``make`` has the options."""

    name, labels, stop, max_tokens = "shell", ("Task", "Command"), ("\n",), 60
    instructions = INSTRUCTIONS
    waits = True

    def __init__(self, kinds: tuple[str, ...], step_limit: int) -> None:
        self.kinds, self._limit = kinds, step_limit

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` jobs: every kind once in shuffled order, then again with other files; used up, they repeat."""
        check_request(split, n, "shell.tasks")
        draw, mine = random.Random(f"shell/{split}/{seed}"), [i for i in range(NUMBERS) if _split(i) == split]
        rows = {kind: draw.sample(mine, len(mine)) for kind in self.kinds}
        found = [(kind, rows[kind][i]) for i in range(len(mine)) for kind in draw.sample(self.kinds, len(self.kinds))]
        tasks = list[Task]()
        for kind, number in islice(cycle(found), n):
            one = job(kind, number)
            text = f"{one.asked}\nFiles: {' '.join(sorted(one.files))}"
            tasks.append(Task(f"shell/{kind}/{number}", text, kind, split, number, {"number": number}))
        return named(tasks, len(found))

    def job(self, task: Task) -> Job:
        """What ``task`` asks for, with the commands of an expert; never for an agent."""
        if task.kind not in KINDS or "number" not in task.meta:
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where=self.name)
        return job(task.kind, int(task.meta["number"]))

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The job and the names of the files; ``seed`` changes nothing."""
        self._job, self._steps, self._asked = self.job(task), 0, task.text
        self._files: Files = {name: text.encode() for name, text in self._job.files.items()}
        for name in list(self._files):
            if "/" in name:
                self._files[name.rpartition("/")[0]] = None
        self._turn = Turn(task.text, key=self._job.asked)
        return self._turn

    def step(self, action: str) -> Turn:
        """Run a command, or end with ``done``. ``info``: ``action``, ``exit`` and ``rewards``.

        Raises:
            EnvError: there was no reset, or the attempt is over.
            NoSandbox: nothing here confines a program.
        """
        playing(self._turn, self.name)
        # no command holds a zero byte; a shell that reads one drops it
        action, self._steps = action.replace("\0", ""), self._steps + 1
        command = unlabelled(action, self.labels[1]).strip().removeprefix("$ ")
        over, result = is_done(command), None
        if not over and command:
            result = self._run(command)
        share = achieved(self._job, self._files)
        over_now = over or self._steps >= self._limit
        right = over_now and share == 1.0 and untouched(self._job, self._files)
        runs = over or (result is not None and result.status == "ok")
        info = {"action": command, "exit": None if result is None else result.exit_code}
        info["rewards"] = {"share": share, "runs": float(runs)}
        valid = result is None or result.status != "harness"
        self._turn = Turn(
            ("done" if right else "not done") if over else self._outcome(result),
            reward=float(right),
            terminated=over,
            truncated=over_now and not over,
            success=right,
            valid=valid,
            key=self._job.asked,
            info=info,
            follows=True,
        )
        return self._turn

    def _run(self, command: str) -> Result:
        """Run it on the files; what it left is taken over unless a limit was passed."""
        result = _PLACE.enter(self).run(
            {STATE: packed(self._files)}, ["/bin/bash", "-c", _SCRIPT, "bash", command], LIMITS, [STATE]
        )
        if result.exit_code == 128 + signal.SIGXCPU:  # ended the command; the shell around it went on
            result = dataclasses.replace(result, status="time")
        self._saved = False
        if result.status in ("ok", "failed"):
            after = unpacked(result.files.get(STATE, b""))
            if after is not None:
                self._files, self._saved = after, True
        return result

    def _outcome(self, result: Result | None) -> str:
        if result is None:
            return "Output: no command"
        if not self._saved:
            why = _STOPPED.get(result.status, "what it left cannot be read, or is more than 1 MB")
            return f"Output: stopped: {why}; nothing of it was kept"
        text = result.stdout.strip()
        if not text:
            return "Output: (none)" if result.exit_code == 0 else f"Output: exit code {result.exit_code}"
        return f"Output: {text[:SHOWN]}" + (f" … ({len(text):,} characters)" if len(text) > SHOWN else "")

    def close(self) -> None:
        """Let go of the sandbox."""
        _PLACE.leave(self)


def make(*, kinds: int = 0, step_limit: int = 8) -> Shell:
    """Small jobs on files, done by shell commands in the sandbox.

    Args:
        kinds: so many kinds of job, the first ones; 0 = all ten.
        step_limit: commands of an attempt, ``done`` among them.

    Raises:
        BadInput: more kinds than there are, or fewer steps than a job needs.
        NoSandbox: nothing on this machine confines a program.
    """
    if not 0 <= kinds <= len(KINDS):
        raise BadInput("not a number of kinds", got=kinds, expected=f"0 to {len(KINDS)}", where="envs.shell.make")
    check_limit(step_limit, 5, "envs.shell.make")
    choose("auto", "tools")
    return Shell(tuple(KINDS)[: kinds or len(KINDS)], step_limit)


def achieved(one: Job, files: Mapping[str, bytes | None]) -> float:
    """Share of the files asked for that are as they should be, word by word."""
    return sum(_is(files.get(name), text) for name, text in one.goal.items()) / len(one.goal)


def untouched(one: Job, files: Mapping[str, bytes | None]) -> bool:
    """Whether the files that the job does not speak of are as they were; new ones may be there."""
    return all(_is(files.get(name), text) for name, text in one.files.items() if name not in one.goal)


def packed(files: Mapping[str, bytes | None]) -> bytes:
    """The files as an archive; always the same bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted(files):
            content, member = files[name], tarfile.TarInfo(name)
            member.type, member.mode = (tarfile.DIRTYPE, 0o755) if content is None else (tarfile.REGTYPE, 0o644)
            member.size = len(content or b"")
            tar.addfile(member, io.BytesIO(content or b""))
    return out.getvalue()


def unpacked(archive: bytes) -> Files | None:
    """The plain files and folders of an archive that nobody has read; ``None`` where it is none, or too much.

    Links and devices are left out, and nothing is written. ``tarfile`` reads single headers only: its loop believes
    sizes, and one below zero leads it back to where it was. What GNU tar writes here needs no more.
    """
    files: Files = {}
    at, room, long = 0, MOST_BYTES, ""
    try:
        while (header := archive[at : at + _BLOCK]) != bytes(_BLOCK):
            member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            begin, size = at + _BLOCK, member.size
            at = begin + -(-size // _BLOCK) * _BLOCK
            if size < 0 or at > len(archive):
                return None
            if member.type == tarfile.GNUTYPE_LONGNAME:  # of the member that follows
                if size > _LONGEST:
                    return None
                long = archive[begin : begin + size].rstrip(b"\0").decode("utf-8", "surrogateescape")
                continue
            name, long = (long or member.name).removeprefix("./").rstrip("/"), ""
            if name in ("", ".", STATE) or member.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE):
                continue
            if len(files) >= MOST_FILES or size > room or any(part in ("", ".", "..") for part in name.split("/")):
                return None
            room -= size
            files[name] = None if member.isdir() else archive[begin : begin + size]
    except (tarfile.TarError, ValueError, OverflowError):
        return None
    return files


def _is(content: bytes | None, text: str | None) -> bool:
    if text is None or content is None:
        return text is None and content is None
    return content.decode("utf-8", "replace").split() == text.split()


def _split(number: int) -> str:
    return "heldout" if number % 3 == 0 else "train"
