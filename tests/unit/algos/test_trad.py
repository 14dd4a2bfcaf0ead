"""TRAD end to end, its model a script that copies the step whose thought is its own; and what breaks it."""

import json
import re
from pathlib import Path

import pytest

from evolvent.algos import trad
from evolvent.algos.trad.aligned import STEP, WHOLE, library_of
from evolvent.cli import main
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Task, Turn
from evolvent.evaluate.live import Live
from evolvent.memory.memory import Memory
from evolvent.models.served.scripted import Scripted
from run_folders import Killed, begin, stable

THINGS = ("jar", "pen", "cup", "hat", "key", "map")
WAY = ("take the {}", "go to the {} shelf", "put the {} down", "ring the bell")
OFFERED = (
    "ring the bell",
    "sing",
    *(
        f"{verb} the {thing}{rest}"
        for thing in THINGS
        for verb, rest in (("take", ""), ("go to", " shelf"), ("put", " down"))
    ),
)


class Shelves:
    """Four commands in the right order tidy a thing away; any other ends the attempt."""

    name, instructions, labels, stop, max_tokens = "shelves", "Tidy.\n\n", ("Situation", "Command"), ("\n",), 8
    reward_range = (0.0, 1.0)

    def tasks(self, split, n, seed):
        things = THINGS[:3] if split == "train" else THINGS[3:]
        return [Task(f"{split}/{t}", f"tidy the {t}", "tidy", split, meta={"thing": t}) for t in things[:n]]

    def reset(self, task, seed=0):
        self.thing, self.done = task.meta["thing"], 0
        return Turn(f"{self.done} done of the {self.thing}.", OFFERED)

    def step(self, action):
        right = action == WAY[self.done].format(self.thing)
        self.done += right
        won = self.done == len(WAY)
        return Turn(
            f"{self.done} done of the {self.thing}.", OFFERED, float(won), terminated=won or not right, success=won
        )

    def expert(self, task):
        return tuple(command.format(task.meta["thing"]) for command in WAY)

    def review(self, task, seed):
        return None

    def advance(self, pass_number):
        pass

    def close(self):
        pass


def make():
    return Shelves()


DONE = ("nothing", "taking", "going", "putting")


class Copier(Scripted):
    """Thinks how much is done, and commands what an example with this very thought did, with its own thing in it."""

    def __init__(self, dies_after=10**9, thinks=None):
        super().__init__(thinks or self.think, scores=self.rate, name="copier")
        self.left = dies_after

    def think(self, prompt):
        return f" Next after {', '.join(DONE[: int(prompt.rpartition('Situation: ')[2][0]) + 1])}.\nAnd more, in prose."

    def generate(self, prompt, **settings):
        if self.left == 0:
            raise Killed
        self.left -= 1
        return super().generate(prompt, **settings)

    def rate(self, prompt, command):
        *examples, now = re.split(r"(?:Example|Now)\. Task: .*\n", prompt)
        thought, thing = (
            now.rpartition("Thought: ")[2].partition("\n")[0],
            now.rpartition(" of the ")[2].partition(".")[0],
        )
        for at, did in re.findall(r"Thought: (.*)\nCommand: (.*)\n", "".join(examples)):
            if at == thought:
                return float(command.strip() == re.sub("|".join(THINGS), thing, did))
        return float(command.strip() == "sing")


def own(tmp_path):
    path = tmp_path / "shelves.py"
    if not path.exists():
        source = Path(__file__).read_text()
        path.write_text(
            source[source.index("THINGS =") : source.index("class Copier")].replace(
                "THINGS =", "from evolvent.core.protocols import Task, Turn\n\nTHINGS =", 1
            )
        )
    return f"{path}:make"


def run(tmp_path, name="run", model=None, resume=False, **settings):
    options = {"env": own(tmp_path), "model": "copier", "embedder": "hash:256", "train": 3, "heldout": 3} | settings
    config = trad.Config(**options)
    with begin(tmp_path / name, "trad", config, resume=resume) as folder, Live(plain=True) as live:
        return trad.run(config, folder, live, resume=resume, model=model or Copier())


# ------------------------------------------------------------------------------------------------ what it does
def test_steps_found_by_thought_solve_what_nothing_else_does(tmp_path):
    model = Copier()
    summary = run(tmp_path, model=model)
    rates = {phase["phase"]: phase["rate"] for phase in summary["phases"]}
    assert rates == {"before": 0.0, "after": 1.0} and summary["score"]["value"] == 1.0
    assert summary["experts"] == {"solved": 3, "steps": 12, "thoughts": 12}
    with Memory(tmp_path / "run" / "memory.db") as memory:
        items = memory.items()
        steps = [item for item in items if item.kind == STEP]
        assert [item.body for item in steps[:4]] == [command.format("jar") for command in WAY]
        assert {item.key for item in steps} == {f"Next after {', '.join(DONE[: n + 1])}." for n in range(4)}, "one line"
        assert all(item.metadata["found"] for item in steps), "the last one reaches the goal: a key like the others"
        assert len([item for item in items if item.kind == WHOLE]) == 3 and all(item.n == 0 for item in items)
    thoughts = [prompt for prompt in model.prompts if prompt.startswith(trad.HEAD)]
    assert len(thoughts) == 12
    assert thoughts[2].endswith(
        "Task: tidy the jar\n"
        "Command: take the jar\nThought: Next after nothing.\n"
        "Command: go to the jar shelf\nThought: Next after nothing, taking.\n"
        "Situation: 2 done of the jar.\nCommand: put the jar down\nThought:"
    )
    last = [prompt for prompt in model.prompts if "3 done of the hat" in prompt][-1]
    assert last.count("Example.") == 2, "one example of each trajectory"


def test_trajectories_that_do_not_fit_are_reported(tmp_path, capsys):
    run(tmp_path, "short", chars=300)
    assert "3 of 3 trajectories are longer than --chars 300 (the longest: " in capsys.readouterr().out
    run(tmp_path, "long")
    assert "--chars" not in capsys.readouterr().out


def test_whole_trajectories_are_a_control_and_window_and_marks_can_be_switched_off(tmp_path):
    assert run(tmp_path, "whole", by="trajectory")["score"]["value"] == 1.0
    # without neighbours every step has to be found by its own thought, the last one as well
    assert run(tmp_path, "narrow", back=0, forward=0)["score"]["value"] == 1.0
    assert run(tmp_path, "wider", back=0, forward=1, marks=False, history=0)["score"]["value"] == 1.0


def test_another_run_with_the_same_seed_has_the_same_numbers(tmp_path):
    run(tmp_path, "a")
    run(tmp_path, "b")
    assert stable(tmp_path / "a") == stable(tmp_path / "b")


@pytest.mark.parametrize("after", [0, 1, 5, 13, 14, 17])
def test_a_run_that_is_killed_between_thoughts_goes_on_and_asks_for_none_again(tmp_path, after):
    whole = Copier()
    run(tmp_path, "whole", model=whole)
    killed = Copier(dies_after=after)
    with pytest.raises(Killed):
        run(tmp_path, model=killed)
    again = Copier()
    run(tmp_path, model=again, resume=True)
    assert stable(tmp_path / "run") == stable(tmp_path / "whole")
    found = [[prompt for prompt in model.prompts if prompt.startswith(trad.HEAD)] for model in (killed, again, whole)]
    assert found[0] + found[1] == found[2]
    libraries = []
    for name in ("run", "whole"):
        with Memory(tmp_path / name / "memory.db") as memory:
            libraries.append(([(item.id, item.key, item.body) for item in memory.items()], library_of(memory)))
    assert libraries[0] == libraries[1]


def test_evaluation_of_a_run_is_with_the_steps_frozen(tmp_path, monkeypatch):
    run(tmp_path)
    monkeypatch.setattr("evolvent.models.load", lambda name, progress=None: Copier())
    with RunFolder.open(tmp_path / "run") as folder, Live(plain=True) as live:
        evaluated = trad.evaluate(folder, live, 2)
    assert evaluated["successes"] == 2 and evaluated["n"] == 2


def test_through_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own(tmp_path)
    (tmp_path / "model.py").write_text("def answer(prompt):\n    return ' I go on, because it is not done.'\n")
    arguments = [
        "--env",
        "shelves.py:make",
        "--model",
        "model.py:answer",
        "--embedder",
        "hash",
        "--train",
        "2",
        "--heldout",
        "2",
    ]
    main(["run", "trad", *arguments, "--out", "run", "--plain"])
    printed = capsys.readouterr()
    assert (
        "4 steps, 4 with a thought" in printed.out + printed.err and "\nafter: the same held-out tasks " in printed.out
    )
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["algo"] == "trad" and summary["steps"] == 2 + 2 + 2
    assert "after: the same held-out tasks" in (tmp_path / "run" / "report.html").read_text()
    # what another run solved is an expert, too, in an environment that has none
    (tmp_path / "shelves.py").write_text((tmp_path / "shelves.py").read_text().replace("def expert", "def nobody"))
    with pytest.raises(SystemExit):
        main(["run", "trad", *arguments, "--out", "none", "--plain"])
    assert "has no expert" in capsys.readouterr().err
    main(["run", "trad", *arguments, "--train", "3", "--experts", "run", "--out", "second", "--plain"])
    assert "run has fewer solved training tasks than the 3 asked for: 2" in capsys.readouterr().out
    assert json.loads((tmp_path / "second" / "summary.json").read_text())["experts"]["steps"] == 8


# ------------------------------------------------------------------------------------------------ what breaks it
def test_a_thought_that_stays_empty_is_asked_for_twice_and_its_step_cannot_be_found(tmp_path):
    def think(prompt):
        first, second = "Command: put the jar down\nThought:", "Command: put the pen down\nThought:"
        return "\n" if prompt.endswith(first) or prompt.endswith((second, f"{first} I")) else Copier().think(prompt)

    model = Copier(
        thinks=lambda prompt: (
            " know it.\n" if prompt.endswith("Thought: I") and "pen" in prompt[-60:] else think(prompt)
        )
    )
    summary = run(tmp_path, model=model)
    assert summary["experts"] == {"solved": 3, "steps": 12, "thoughts": 11}
    with Memory(tmp_path / "run" / "memory.db") as memory:
        steps = {item.body: item for item in memory.items() if item.kind == STEP}
    assert not steps["put the jar down"].metadata["thought"] and not steps["put the jar down"].metadata["found"]
    assert steps["put the pen down"].key == "I know it."


def test_a_model_that_never_thinks_is_shown_nothing_and_warned(tmp_path):
    summary = run(tmp_path, model=Copier(thinks=lambda prompt: ""))
    assert summary["experts"]["thoughts"] == 0 and summary["score"]["value"] == 0.0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"env": "chain"}, "has no expert"),
        ({"model": "none"}, "thoughts are written by a model"),
        ({"experts": "nowhere"}, "not a run folder|no such folder"),
        ({"k": 0}, "k"),
        ({"heldout": 0}, "heldout"),
    ],
)
def test_refused_before_a_model_is_loaded(tmp_path, monkeypatch, settings, said):
    monkeypatch.setattr("evolvent.models.load", lambda *_, **__: pytest.fail("a model was loaded"))
    with pytest.raises(BadInput, match=said):
        config = trad.Config(**({"env": own(tmp_path), "embedder": "hash", "train": 2, "heldout": 2} | settings))
        with begin(tmp_path / "run", "trad", config) as folder, Live(plain=True) as live:
            trad.run(config, folder, live)


def edited(tmp_path, old, new):
    own(tmp_path)
    path = tmp_path / "shelves.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_a_kind_of_task_that_no_expert_solved_is_refused_or_shown_the_others(tmp_path):
    edited(tmp_path, '"tidy", split', "t, split")
    with pytest.raises(BadInput, match="no trajectory of an expert for this kind of task"):
        run(tmp_path)
    assert run(tmp_path, "all", same_kind=False)["score"]["value"] == 1.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("for command in WAY)", "for command in WAY[:2])", "did not reach the goal"),
        ("for command in WAY)", "for command in ('dance',))", "is not offered"),
        ("return tuple(", "raise EnvError('lost')\n        return tuple(", "lost"),
    ],
)
def test_experts_that_fail_are_reported_and_without_any_the_run_ends(tmp_path, capsys, old, new, said):
    edited(tmp_path, old, new)
    path = tmp_path / "shelves.py"
    path.write_text("from evolvent.core.errors import EnvError\n" + path.read_text())
    with pytest.raises(BadInput, match="no trajectory of an expert"):
        run(tmp_path)
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["solved"] for row in rows[:3]] == [0, 0, 0] and said in rows[0]["error"]


def test_an_expert_that_does_something_else_when_a_run_goes_on_is_refused(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, model=Copier(dies_after=2))
    with Memory(tmp_path / "run" / "memory.db") as memory:
        first = memory.items()[0]
        memory.update(first.id, "test", body="sing")
    with pytest.raises(BadInput, match="the expert does something else now"):
        run(tmp_path, resume=True)


def test_runs_that_are_no_expert_are_refused(tmp_path):
    run(tmp_path)
    with pytest.raises(BadInput, match="a run in another environment"):
        run(tmp_path, "other", env="household:entertainment", experts=str(tmp_path / "run"))
    rows = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    (tmp_path / "run" / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[3:]))
    with pytest.raises(BadInput, match="no training task was solved"):  # held-out tasks that it solved do not count
        run(tmp_path, "none", experts=str(tmp_path / "run"))
