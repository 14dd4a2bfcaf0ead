"""The words about a run: better, worse, no different, too few to tell; with intervals that do not pretend."""

from pathlib import Path

import pytest

from evolvent.core.folder import RunFolder
from evolvent.evaluate.against import Against, own, sentence_of
from evolvent.evaluate.blocks import Comparison, Number, Page
from evolvent.evaluate.pages.report import verdict_block
from evolvent.evaluate.verdict import Verdict, of_run
from evolvent.running import page_of, write_report
from evolvent.runs.language.kind import KIND as LANGUAGE
from evolvent.runs.memory.kind import KIND as MEMORY
from evolvent.runs.team.kind import KIND as TEAM
from sample_language_run import sample_language_run
from sample_run import sample_run
from sample_search_run import sample_search_run
from sample_team_run import sample_team_run

HERE = Path("runs/a")
COMMAND = "evolvent run mat --env spread:n=3 --seed 4 --out runs/a --steps 400"


class Ended:
    """A run folder that holds this summary and these lines."""

    path, finished = HERE, True

    def __init__(self, manifest, summary, rows=()):
        self.manifest = lambda: {"seed": 0, "config": {}, **manifest}
        self.summary, self.read_metrics, self.read_episodes = lambda: summary, lambda: list(rows), lambda: iter(())


def verdict(kind, manifest, summary, rows=()):
    """What is said of a run of that kind, by the page that it makes of itself."""
    run = Ended({**manifest, "kind": kind.name}, summary, rows)
    return of_run(run.manifest(), kind.account(run), HERE)


def levels(score, ci95, *, kind=TEAM, command=COMMAND, **rest):
    """The verdict on a run with one score and the levels in ``rest``."""
    higher = rest.pop("higher_is_better", True)
    summary = {"score": {"name": "return", "value": score, "ci95": ci95, "higher_is_better": higher}, **rest}
    return verdict(kind, {"algo": "mat", "env": "spread:n=3", "command": command}, summary)


def tasks(before, after):
    """The verdict on a memory run whose held-out tasks came out so."""
    rows = [
        {"step": i, "phase": phase, "task": f"t{i}", "success": ok}
        for phase, outcomes in (("before", before), ("after", after))
        for i, ok in enumerate(outcomes)
    ]
    share = sum(after) / len(after)
    base = {"name": "without memory", "value": sum(before) / len(before), "ci95": [0, 1]}
    summary = {"score": {"name": "success", "value": share, "ci95": [0, 1]}, "baseline": base, "passes": []}
    command = "evolvent run memlift --seed 1"
    return verdict(MEMORY, {"algo": "memlift", "env": "analyst", "command": command}, summary, rows)


RANDOM = {"name": "random actions", "value": 0.2, "ci95": [0.1, 0.3]}


@pytest.mark.parametrize(
    ("score", "ends", "state", "words"),
    [
        (0.6, [0.5, 0.7], "better", "Better than random actions."),
        (0.0, [-0.05, 0.05], "worse", "Worse than random"),
        (0.25, [0.15, 0.35], "same", "Not shown to differ from random actions."),
    ],
)
def test_better_worse_and_no_different(score, ends, state, words):
    said = levels(score, ends, baseline=RANDOM)
    assert said.state == state and said.sentence.startswith(words) and "One seed" in said.note
    assert ("against 0.20, a difference of" in said.lines()[0]) and said.advice


def test_two_intervals_that_overlap_can_differ():
    """The rule of thumb that compares ends is too careful by a half."""
    assert levels(0.35, [0.27, 0.43], baseline={**RANDOM, "ci95": [0.12, 0.28]}).state == "better"


def test_lower_is_better_turns_the_words_round():
    loss = levels(0.05, [0.0, 0.1], baseline=RANDOM, higher_is_better=False)
    assert loss.state == "better" and "lower is better" in loss.lines()[0]
    assert levels(0.6, [0.5, 0.7], baseline=RANDOM, higher_is_better=False).state == "worse"


def test_several_levels_in_one_sentence():
    said = levels(0.5, [0.4, 0.6], baseline=RANDOM, idle={"name": "no action", "value": 0.9, "ci95": [0.85, 0.95]})
    assert said.sentence.startswith("Better than random actions; worse than no action.")


@pytest.mark.parametrize("ends", [None, [None, None], [float("nan"), float("nan")]])
def test_without_an_interval_nothing_is_claimed(ends):
    said = levels(0.9, ends, baseline=RANDOM)
    assert said.state == "unknown" and said.sentence.startswith("Too few outcomes") and "no interval" in said.lines()[0]
    numbers = Number("return", 0.9, ends and tuple(ends)), Number("random actions", 0.2, (0.1, 0.3))
    (one,) = own([Page("", (Comparison("random actions", own=numbers[0], other=numbers[1]),))])
    assert one.state == "unknown" and "no interval" in one.numbers


def test_few_attempts_are_no_verdict_however_clear_they_look():
    said = levels(1.0, [1.0, 1.0], baseline=RANDOM, greedy={"n": 2, "tasks": 2})
    assert said.state == "unknown" and "judged on 2" in said.lines()[0]


def test_without_a_baseline_it_says_so():
    assert levels(0.5, [0.4, 0.6]).sentence.startswith("No verdict: nothing was recorded to compare it with.")
    assert levels(None, None, baseline=RANDOM).sentence == "No verdict: the run has no score."


def test_a_return_that_is_the_success_rate_is_reported_in_per_cent():
    row = {"n": 32, "tasks": 32, "ci95": [0.0, 1.0]}
    greedy = {"value": 0.09375, "success_mean": 0.09375, **row}
    chance = {"name": "random actions", "value": 0.71875, "success_mean": 0.71875, **row}
    said = levels(0.09375, [0.0, 0.2], kind=LANGUAGE, greedy=greedy, baseline=chance)
    assert said.state == "worse" and said.lines()[0].startswith(
        "against random actions: 9 % against 72 %, -62 points ["
    )


# ------------------------------------------------------------------------------------------- tasks, in pairs
def test_pairs_of_tasks():
    assert tasks([0] * 24, [1] * 18 + [0] * 6).state == "better"
    assert tasks([1] * 18 + [0] * 6, [0] * 24).state == "worse"
    said = tasks([1, 0] * 12, [0, 1] * 12)
    assert said.state == "same" and "12 won, 12 lost" in said.lines()[0]
    assert said.command == "evolvent memory audit runs/a --html audit.html"


def test_three_of_three_is_not_better_and_none_of_twenty_four_is_no_certainty():
    assert tasks([0] * 3, [1] * 3).state == "unknown"
    assert tasks([0] * 5, [1] * 5).state == "same", "an exact test of five pairs cannot reach 5 %"
    nothing = tasks([0] * 24, [0] * 24)
    assert nothing.state == "same" and "+0 points [-14, +14]" in nothing.lines()[0]


def test_perfect_scores_leave_nothing_to_gain():
    said = tasks([1] * 24, [1] * 24)
    assert said.state == "same" and "harder tasks" in said.advice


# ------------------------------------------------------------------------------------------- what next
def test_the_next_command_is_the_runs_own():
    better = levels(0.6, [0.5, 0.7], baseline=RANDOM)
    assert better.command == "evolvent run mat --env spread:n=3 --steps 400 --seeds 0 1 2 3 4"
    worse = levels(0.0, [-0.05, 0.05], baseline=RANDOM, steps=400)
    assert worse.command == "evolvent run mat --resume runs/a --steps 800"
    python = levels(0.6, [0.5, 0.7], baseline=RANDOM, command="evolvent.run('mat', seed=4)")
    assert python.command == "evolvent run mat --env spread:n=3 --seeds 0 1 2 3 4"


def test_every_kind_of_run_has_a_verdict(tmp_path):
    made = {
        "memory": sample_run(tmp_path / "m"),
        "language": sample_language_run(tmp_path / "l"),
        "team": sample_team_run(tmp_path / "t"),
        "search": sample_search_run(tmp_path / "s", tasks=24),
    }
    starts = {
        "memory": "Better than no memory on held-out tasks",
        "language": "Better than before learning and random",
        "team": "Better than random actions.",
        "search": "greedy: not shown to differ from cot_sc; worse than mcts_rollout.",
    }
    for kind, path in made.items():
        opened = RunFolder.open(path)
        said = of_run(opened.manifest(), page_of(opened), path)
        assert said.sentence.startswith(starts[kind]), said.sentence
        page = write_report(path).read_text(encoding="utf-8")
        figures, links = (page.index(f'class="{name}') for name in ("hero", "links"))
        assert page.index("<h1>") < figures < page.index(said.sentence) < links < page.index("<section>")
        assert page.count('class="hero"') == 1


def test_the_control_is_not_compared_with_itself():
    said = verdict(MEMORY, {"algo": "no_memory"}, {"score": {"name": "success", "value": 0.5}})
    assert "control" in said.sentence and "evolvent compare" in said.advice and not said.against


def test_a_run_that_goes_on_has_none_yet(tmp_path):
    opened = RunFolder.open(sample_team_run(tmp_path / "t", summary=False))
    said = of_run(opened.manifest(), page_of(opened), opened.path, ended=opened.finished, step=opened.step)
    assert said.sentence == "No verdict yet: the run has not ended (step 96,000)."
    assert said.command == f"evolvent run mat --resume {opened.path}"


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        (["better"], "better"),
        (["better", "better"], "better"),
        (["better", "same"], "same"),
        (["better", "unknown"], "same"),
        (["better", "worse"], "same"),
        (["worse", "same"], "worse"),
        (["same", "worse"], "worse"),
        (["worse", "better"], "same"),
        (["same"], "same"),
        (["unknown"], "unknown"),
        ([], "unknown"),
    ],
)
def test_a_colour_says_no_more_than_the_sentence(states, whole):
    found = tuple(Against(f"arm {i}", state, "") for i, state in enumerate(states))
    said = Verdict(sentence_of(found), against=found)
    assert said.state == whole
    assert f'class="verdict {whole}"' in verdict_block(said)
