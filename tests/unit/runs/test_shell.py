"""The shell of a run: when it evaluates, saves and stops, what it writes, and where a resumed run stands."""

import io

import pytest

import evolvent
from evolvent import catalogue
from evolvent.core.errors import ModelError
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.shell import Shell


class Sum:
    """Something that learns: it adds up the numbers of the updates."""

    total = 0

    def state_dict(self):
        return {"total": self.total}

    def load_state_dict(self, state):
        self.total = state["total"]


class Run:
    """A run of ten updates, as small as it can be."""

    def __init__(self, path, *, resume=False, total=10, **more):
        self.folder = (
            RunFolder.open(path)
            if resume
            else RunFolder.create(path, algo="sum", config={}, env="", seed=0, command="", kind="search")
        )
        self.out, self.learner, self.judged = io.StringIO(), Sum(), []
        cadence = {"save_every": 3, "eval_every": 4, **more}
        self.shell = Shell(
            self.folder, Live(True, stream=self.out), total, resume=resume, evaluate=self.evaluate, **cadence
        )
        self.shell.keep(learner=self.learner)

    def evaluate(self):
        self.judged.append(self.shell.update)
        self.folder.log(10 * self.shell.update, phase="eval", value=float(self.learner.total))

    def go(self, stop_at=None, kill_at=None):
        self.shell.restore(lambda state: 10 * state["update"])
        with self.folder:
            for update in self.shell.updates():
                with self.shell.clock("learn"):
                    self.learner.total += update
                if update + 1 == kill_at:
                    raise KeyboardInterrupt
                self.folder.interrupt.requested = update + 1 == stop_at
                self.shell.log(10 * (update + 1), {"return": float(update)}, {"total": float(self.learner.total)})
                self.shell.tell([f"return {update}"])
            return self.shell.judged(10 * self.shell.update)["value"]

    def lines(self):
        return [{k: v for k, v in row.items() if k[-2:] != "_s" and k != "t"} for row in self.folder.read_metrics()]

    def saved(self):
        return sorted(int(path.name[5:]) for path in (self.folder.path / "checkpoints").glob("step-*"))


def test_it_evaluates_and_saves_where_it_is_time(tmp_path):
    run = Run(tmp_path / "r")
    assert run.go() == 45.0
    assert run.judged == [4, 8, 10] and run.saved() == [9, 10]
    assert catalogue.kind_of(run.folder).name == "search"
    first, *_ = run.lines()
    assert first == {"step": 10, "update": 1, "return": 0.0, "total": 0.0}
    assert {f"{name}_s" for name in ("act", "step", "credit", "learn")} < set(run.folder.read_metrics()[0])


@pytest.mark.parametrize("how", ["stop_at", "kill_at"])
@pytest.mark.parametrize("at", [1, 5, 6, 9])
def test_a_run_that_was_stopped_or_killed_ends_as_one_that_was_not(tmp_path, how, at):
    whole, cut = Run(tmp_path / "whole"), Run(tmp_path / "cut")
    gained = whole.go()
    with pytest.raises(Interrupted if how == "stop_at" else KeyboardInterrupt):
        cut.go(**{how: at})
    assert max(cut.saved(), default=0) == (at if how == "stop_at" else (at - 1) // 3 * 3)
    again = Run(tmp_path / "cut", resume=True)
    assert again.go() == gained and again.lines() == whole.lines() and again.saved() == whole.saved()
    assert f"continuing after update {at if how == 'stop_at' else (at - 1) // 3 * 3} of 10" in again.out.getvalue()


def test_stopped_in_its_last_update_it_ends(tmp_path):
    run = Run(tmp_path / "r")
    assert run.go(stop_at=10) == 45.0 and run.saved() == [9, 10]


def test_what_is_not_finite_ends_the_run_before_it_is_written(tmp_path):
    run = Run(tmp_path / "r")
    for update in run.shell.updates():
        run.shell.log(update + 1, {}, {"loss": 1.0})
        if update == 2:
            with pytest.raises(ModelError, match=r"learning diverged\n  got: loss = nan, norm = inf\n(.|\n)*update 3"):
                run.shell.log(4, {"return": float("nan")}, {"loss": float("nan"), "norm": float("inf"), "kl": 0.0})
            break
    assert [row["update"] for row in run.lines()] == [1, 2, 3] and run.shell.update == 3


def test_another_limit_ends_it_too_and_what_was_done_is_saved(tmp_path):
    run = Run(tmp_path / "r", save_every=5)
    run.shell.spent = lambda: run.learner.total / 20
    run.go()
    assert run.shell.update == 7 and run.saved() == [5, 7] and run.judged == [4, 7]
    assert run.shell.done == 1.0


def test_warnings_stand_in_the_line_and_before_who_watches(tmp_path):
    run = Run(tmp_path / "r", signs=lambda row: ["it is odd"] if row["update"] % 2 and row["total"] > 30 else [])
    run.go()
    assert [row["update"] for row in run.lines() if row.get("warnings") == ["it is odd"]] == [9]
    assert run.out.getvalue().count("! it is odd") == 1


def test_progress_is_reported_at_first_and_at_last_and_not_all_the_time(tmp_path):
    run = Run(tmp_path / "r")
    run.go()
    found = [line for line in run.out.getvalue().splitlines() if " % · update " in line]
    assert len(found) == 2 and "update 1/10 · return 0 · " in found[0] and found[0].endswith(" left")
    assert found[1].endswith("100 % · update 10/10 · return 9")


def test_an_evaluation_that_the_log_ends_with_is_not_made_again(tmp_path):
    Run(tmp_path / "r").go()
    again = Run(tmp_path / "r", resume=True)
    assert again.go() == 45.0 and again.judged == []


def test_a_run_without_parts_saves_nothing_and_says_itself_where_it_stands(tmp_path):
    folder = RunFolder.create(tmp_path / "r", algo="stream", config={}, env="", seed=0, command="")
    shell = Shell(folder, Live(True, stream=io.StringIO()), 5, unit="task", resume=True)
    with folder:
        for step in range(1, 5):
            folder.log(step)
        shell.go_on(2, 2)
        for number in shell.updates():
            folder.log(number + 1)
            shell.update += 1
    assert [row["step"] for row in folder.read_metrics()] == [1, 2, 3, 4, 5]
    assert shell.first == 2 and not (tmp_path / "r" / "checkpoints").exists()


def test_nothing_to_do_is_over_at_once(tmp_path):
    run = Run(tmp_path / "r", total=0)
    assert list(run.shell.updates()) == []


OWN = """
from dataclasses import dataclass
from evolvent.runs.shell import Shell

@dataclass(frozen=True)
class Config:
    KIND = {kind!r}
    seed: int = 0

def run(config, folder, live, *, resume=False):
    shell = Shell(folder, live, total=2, resume=resume)
    for update in shell.updates():
        shell.log(update + 1, {row!r}, {{"loss": 0.5}})
    score = {{"name": "reward", "value": 1.0, "ci95": [0.0, 1.0], "higher_is_better": True}}
    return {{"algo": "own", "env": "", "seed": 0, "score": score}}
"""


@pytest.mark.parametrize("kind", ["", "mine", "team", "language", "search", "programs", "games"])
@pytest.mark.parametrize(
    "row", [{}, {"return": 1.0}, {"credit": 0.5}, {"credit": []}, {"credit": [0.5, 0.5]}, {"phase": "act", "valid": 1}]
)
def test_a_system_of_ones_own_ends_with_a_page_whatever_it_logs(tmp_path, kind, row):
    (tmp_path / "own.py").write_text(OWN.format(kind=kind, row=row))
    result = evolvent.run(tmp_path / "own.py", out=tmp_path / "r", quiet=True)
    assert result.summary["score"]["value"] == 1.0
    assert "reward" in (tmp_path / "r/report.html").read_text() and not (tmp_path / "r/error.txt").exists()
