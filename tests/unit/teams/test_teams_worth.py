"""``evolvent.worth``: the value of parts against games whose values are known, what goes wrong, and going on."""

import asyncio
import json
import math
import random
import re
import threading

import numpy as np
import pytest

import evolvent
from evolvent import catalogue
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.seeding import rng
from evolvent.credit import component_shapley
from evolvent.evaluate import blocks
from evolvent.teams.game import Game, Row
from evolvent.teams.parts import Chosen, parts_of

TASKS = [{"id": i} for i in range(30)]
PAIR = (None, "strong")


def study(run, parts, out, tasks=TASKS, score=lambda task, answer: answer, **settings):
    settings = {"verify": 0, "quiet": True, **settings}
    return evolvent.worth(run, parts, tasks, score, out=out, **settings)


def shapleys(report):
    return {name: one.shapley.value for name, one in report.parts.items()}


def lines(out):
    return (out / "episodes.jsonl").read_bytes()


# ------------------------------------------------------------------------------------------------ the values
def test_the_glove_game_tells_shapley_from_banzhaf(tmp_path):
    """Known by hand: (2/3, 1/6, 1/6), and (3/4, 1/4, 1/4)."""

    def run(task, parts):
        return bool(parts["left"]) and bool(parts["right"] or parts["other right"])

    report = study(run, dict.fromkeys(("left", "right", "other right"), PAIR), tmp_path)
    assert list(shapleys(report).values()) == pytest.approx([2 / 3, 1 / 6, 1 / 6])
    assert [one.banzhaf.value for one in report.parts.values()] == pytest.approx([0.75, 0.25, 0.25])
    assert [one.leave_one_out.value for one in report.parts.values()] == pytest.approx([1, 0, 0])
    assert [one.first_in.value for one in report.parts.values()] == pytest.approx([0, 0, 0])
    assert report.interactions[0, 1] == pytest.approx(0.5) and report.interactions[1, 2] == pytest.approx(-0.5)
    assert report.best == ("left", "right"), "the best that is smallest"
    assert "best: left + right" in str(report)


def test_credit_of_the_run_folder_says_the_same(tmp_path):
    game = {(): 0.216, ("p",): 0.236, ("a",): 0.42, ("p", "a"): 0.448}

    def run(task, parts):
        return game[tuple(name for name in parts if parts[name])]

    report = study(run, {"p": PAIR, "a": PAIR}, tmp_path, verify=0.3)
    episodes = [evolvent.Episode.from_dict(row) for row in RunFolder.open(tmp_path).read_episodes()]
    assert len(episodes) == report.runs == 21 * 4 + 9 * 2 and {e.valid for e in episodes} == {True, False}
    config = component_shapley.Config(reference={"p": "none", "a": "none"})
    ledger = component_shapley.assign(episodes, config)
    assert np.nansum(ledger.values("component")) == pytest.approx(21 * 2 * sum(shapleys(report).values()))
    assert shapleys(report) == pytest.approx({"p": 0.024, "a": 0.208})
    assert (tmp_path / "report.html").exists() and (tmp_path / "page.json").exists()


def test_more_than_six_parts_are_exact_where_two_work_together(tmp_path):
    names = [f"part {i}" for i in range(8)]
    worths = {name: 0.01 * (i + 1) for i, name in enumerate(names)}
    pairs = {(names[0], names[5]): 0.2, (names[2], names[7]): -0.1}
    asked = set()

    def run(task, parts):
        strong = {name for name in parts if parts[name]}
        asked.add(frozenset(strong))
        return sum(worths[name] for name in strong) + sum(w for both, w in pairs.items() if strong >= {*both})

    report = study(run, dict.fromkeys(names, PAIR), tmp_path, tasks=TASKS[:4])
    truth = dict(worths)
    for both, w in pairs.items():
        for name in both:
            truth[name] += w / 2
    assert shapleys(report) == pytest.approx(truth)
    assert len(asked) < 90 and report.interactions is None
    assert all(one.banzhaf is None and one.first_in is not None for one in report.parts.values())
    assert any("orders of the parts" in note for note in report.notes)
    assert report.parts["part 5"].first_in.value == pytest.approx(0.06)


PLANTED = {"good": 0.25, "fair": 0.1, "placebo": 0.0}


def planted(seed):
    """A workflow whose parts add what is planted; tasks differ in difficulty; runs are drawn."""

    def run(task, parts):
        draw = random.Random(f"{seed} {task['id']}")
        hard = draw.uniform(-0.15, 0.15)
        strong = [name for name in PLANTED if parts[name]]
        return random.Random(f"{seed} {task['id']} {strong}").random() < 0.3 + hard + sum(PLANTED[n] for n in strong)

    return run


def test_intervals_cover_the_truth_and_a_placebo_covers_zero():
    """Nominal 95 %; 120 studies of 40 tasks, three parts each."""
    covered = dict.fromkeys(PLANTED, 0)
    for seed in range(120):
        for name, number in values_of(planted(seed), n_tasks=40).items():
            lo, hi = number.ci95
            covered[name] += lo <= PLANTED[name] <= hi
    assert sum(covered.values()) / 360 >= 0.93 and covered["placebo"] >= 110, covered


def values_of(run, n_tasks):
    """Shapley values with intervals as a study computes them, without its folder."""
    named = parts_of(dict.fromkeys(PLANTED, PAIR))
    rows = []
    for task in ({"id": i} for i in range(n_tasks)):
        for mask in range(1 << len(named)):
            chosen = Chosen(named, mask)
            score = float(run(task, chosen))
            rows.append(Row(False, task["id"], mask, 0, score, 0.0, 0, None, "", frozenset(chosen.read)))
    return {one.name: one.shapley for one in Game(named, rows, looked=False).parts()}


def test_a_part_that_is_never_asked_for_is_worth_exactly_zero(tmp_path):
    drawn = random.Random(1)

    def run(task, parts):
        return drawn.random() < (0.7 if parts["used"] else 0.2)  # chance, so that a plain difference would not be 0

    report = study(run, {"used": PAIR, "ignored": PAIR}, tmp_path)
    ignored = report.parts["ignored"]
    assert ignored.shapley.value == 0.0 and ignored.shapley.ci95 == (0.0, 0.0)
    assert "no run asks for it: worth exactly 0" in str(ignored) and report.interactions[0, 1] == 0.0
    everything, used = report.configurations[3], report.configurations[1]
    assert everything.score.value == used.score.value, "their runs are taken together"
    assert report.best == ("used",)


def test_a_part_that_others_replace_is_left_out_of_the_best(tmp_path):
    report = study(lambda task, parts: any(parts.values()), {"a": PAIR, "b": PAIR}, tmp_path, verify=0.3)
    assert shapleys(report) == {"a": 0.5, "b": 0.5} and report.interactions[0, 1] == -1
    assert len(report.best) == 1 and report.against[0].value == 0
    assert sorted(one.verdict for one in report.parts.values()) == ["keep it", "the best does without it"]


def test_the_best_is_told_apart_from_what_only_looked_so(tmp_path):
    """Chance made one of the configurations look best; at the tasks held apart it is behind, and the report says so."""

    def run(task, parts):
        strong = bool(parts["a"]), bool(parts["b"])
        return task["id"] < 70 if strong == (True, False) else task["id"] >= 70 if strong == (True, True) else 0

    tasks = [{"id": i} for i in range(100)]
    order = np.array([task["id"] for task in tasks])
    held = rng(0, "worth", "tasks").permutation(100)[:30]
    for new, old in enumerate([*np.setdiff1d(order, held), *held]):
        tasks[old] = {"id": new}
    report = study(run, {"a": PAIR, "b": PAIR}, tmp_path, tasks, verify=0.3)
    assert report.best == ("a",) and report.verified.value == 0 and report.against[0].ci95[1] < 0
    assert "not confirmed: behind everything strong" in str(report)
    assert blocks.read(tmp_path).hint.verdict.startswith("Not confirmed")


def test_all_tasks_alike_still_leave_a_width(tmp_path):
    report = study(lambda task, parts: parts["a"] is not None, {"a": PAIR}, tmp_path)
    lo, hi = report.parts["a"].shapley.ci95
    assert report.parts["a"].shapley.value == hi == 1.0 and lo < 0.9, "no effect is above 1"


def test_costs_are_shared_by_the_same_game(tmp_path):
    def run(task, parts):
        evolvent.spent(100 if parts["llm"] == "small" else 300)
        if parts["critic"]:
            evolvent.spent(100)
        return parts["llm"] == "large" and task["id"] % 2

    report = study(run, {"llm": ("small", "large"), "critic": (None, study)}, tmp_path, verify=0.3)
    critic, llm = report.parts["critic"], report.parts["llm"]
    assert (critic.takes["tokens"].value, llm.takes["tokens"].value) == (100, 200)
    assert (critic.shares["tokens"], llm.shares["tokens"]) == (0.25, 0.5)
    assert critic.takes["calls"].value == 1 and llm.takes["calls"].value == 0
    assert re.fullmatch(r"critic: earns 0.00 \[.*\], costs 25 % of the tokens: .*", str(critic))
    assert report.best == ("llm",) and report.held == 9
    assert report.against[0].name == "everything strong" and report.against[0].value == 0


def test_what_configurations_score_beyond_the_sum_of_their_parts(tmp_path):
    """By hand: values .5 and .5, so each alone is foretold .5 and scores .2; of parts that add up nothing is left."""

    def run(task, parts):
        evolvent.spent(1, saved_s=40.0 if parts["a"] else 0.0)
        return {0: 0.0, 1: 0.2, 2: 1.0}[bool(parts["a"]) + bool(parts["b"])]

    report = study(run, {"a": PAIR, "b": PAIR}, tmp_path / "pair")
    beyond = {one.strong: one.beyond and (one.added, one.beyond.value) for one in report.configurations}
    assert beyond == {
        (): None,
        ("a", "b"): None,
        ("a",): pytest.approx((0.5, -0.3)),
        ("b",): pytest.approx((0.5, -0.3)),
    }
    assert "to 0.300 on average, 0.300 at most (a); 2 of 2 intervals of the error leave out 0" in str(report)
    *_, configurations = blocks.read(tmp_path / "pair").of(blocks.Table)
    assert configurations.columns[:4] == ("configuration", "score", "if parts add", "beyond that")
    assert report.parts["a"].takes["seconds"].value == pytest.approx(40, abs=1), "an answer from a cache is not free"
    sums = {"a": 0.3, "b": 0.1}

    def add(task, parts):
        return sum(sums[name] for name in sums if parts[name])

    report = study(add, dict.fromkeys(sums, PAIR), tmp_path / "sum")
    assert "to 0.000 on average" in str(report) and "0 of 2 intervals" in str(report)
    with pytest.raises(BadInput, match="not what a call takes"):
        evolvent.spent(1, saved_s=-1.0)


def test_what_was_not_counted_is_unknown_and_said(tmp_path, monkeypatch):
    def run(task, parts):
        evolvent.spent(None if task["id"] == 3 else 5)
        return True

    report = study(run, {"a": PAIR}, tmp_path / "untold")
    assert report.parts["a"].takes["tokens"] is None and report.parts["a"].takes["calls"].value == 0
    assert "2 of 60 runs made calls that did not tell them" in str(report)
    report = study(lambda task, parts: True, {"a": PAIR}, tmp_path / "nothing")
    assert report.parts["a"].takes["tokens"] is None and "no call was counted" in str(report)
    with pytest.raises(BadInput, match="not counted"):
        study(lambda task, parts: True, {"a": PAIR}, tmp_path / "budget", budget={"tokens": 100})


# ------------------------------------------------------------------------------------------------ runs
def test_what_raises_is_an_outcome(tmp_path):
    def run(task, parts):
        if parts["a"] and task["id"] < 10:
            raise ValueError(f"broke at {task['id'] % 2}")
        if task["id"] == 29:
            raise SystemExit(3)
        return 1

    report = study(run, {"a": PAIR}, tmp_path)
    assert report.parts["a"].shapley.value == pytest.approx(-1 / 3) and "harm" in report.parts["a"].verdict
    rows = [row for row in RunFolder.open(tmp_path).read_episodes() if "error" in row["meta"]]
    assert len(rows) == 12 and all("test_teams_worth.py, line" in row["meta"]["error"] for row in rows)
    assert any("5 runs of 60 raised ValueError: broke at 0" in note for note in report.notes)
    report = study(lambda task, parts: undefined, {"a": PAIR}, tmp_path / "all")  # noqa: F821
    assert "exactly 0" not in report.parts["a"].verdict and "60 runs of 60 raised NameError" in str(report)


def test_several_at_a_time_write_the_same_bytes(tmp_path):
    def run(task, parts, seed):
        evolvent.spent(10 + seed + task["id"])
        threading.Event().wait(0.001 * (task["id"] % 3))
        return (task["id"] * 7 + bool(parts["a"]) + seed) % 3 == 0

    async def slow(task, parts, seed):
        await asyncio.sleep(0)
        return run(task, parts, seed)

    for name, workers, workflow in (("one", 1, run), ("four", 4, run), ("async", 3, slow)):
        study(workflow, {"a": PAIR, "b": PAIR}, tmp_path / name, seeds=2, workers=workers, verify=0.2)
    assert lines(tmp_path / "one") == lines(tmp_path / "four") == lines(tmp_path / "async")


def test_a_budget_of_runs_is_kept(tmp_path):
    made = []
    report = study(lambda task, parts: made.append(1) or True, {"a": PAIR}, tmp_path, budget={"runs": 31}, verify=0.1)
    assert report.tasks == 11 and len(made) == report.runs <= 31
    assert not any("looked at" in note for note in report.notes), "fixed beforehand"
    with pytest.raises(BadInput, match="at least 11 runs"):
        study(lambda task, parts: True, {"a": PAIR}, tmp_path / "less", budget={"runs": 10}, verify=0.1)


def test_a_budget_of_tokens_stops_and_widens_the_interval(tmp_path):
    def run(task, parts):
        evolvent.spent(10)
        return task["id"] % 2 == 0 or bool(parts["a"])

    report = study(run, {"a": PAIR}, tmp_path, budget={"tokens": 450})
    assert 20 <= report.tasks <= 22 and any("looked at" in note for note in report.notes)
    fixed = study(run, {"a": PAIR}, tmp_path / "fixed", tasks=TASKS[: report.tasks])
    width = [hi - lo for lo, hi in (r.parts["a"].shapley.ci95 for r in (report, fixed))]
    assert width[0] > 1.5 * width[1]


def test_it_stops_when_every_part_is_known_well_enough(tmp_path):
    tasks = [{"id": i} for i in range(400)]
    report = study(lambda task, parts: 0.5 + 0.3 * bool(parts["a"]), {"a": PAIR}, tmp_path, tasks, within=0.1)
    lo, hi = report.parts["a"].shapley.ci95
    assert 10 < report.tasks < 100 and (hi - lo) / 2 <= 0.1 and lo < 0.3 < hi


def test_ctrl_c_stops_after_the_run_and_the_same_call_goes_on(tmp_path):
    import signal

    stops = [7]

    def run(task, parts):
        stops[0] -= 1
        if stops[0] == 0:
            signal.raise_signal(signal.SIGINT)
        return (task["id"] + bool(parts["a"])) % 2

    with pytest.raises(KeyboardInterrupt, match="the same call goes on"):
        study(run, {"a": PAIR}, tmp_path / "x", verify=0.3)
    assert lines(tmp_path / "x").count(b"\n") == 7
    report = study(run, {"a": PAIR}, tmp_path / "x", verify=0.3)
    whole = study(run, {"a": PAIR}, tmp_path / "y", verify=0.3)
    assert lines(tmp_path / "x") == lines(tmp_path / "y") and shapleys(report) == shapleys(whole)
    before = stops[0]
    again = study(run, {"a": PAIR}, tmp_path / "x", verify=0.3)
    assert stops[0] == before and str(again) == str(report), "a study that has ended runs nothing"


# ------------------------------------------------------------------------------------------------ bad input
def strong():
    return 1


@pytest.mark.parametrize("score", [math.nan, math.inf, None, "0.5", [1], 1j])
def test_a_score_that_is_no_number(score, tmp_path):
    with pytest.raises(BadInput, match="a score is not a number"):
        study(lambda task, parts: score, {"a": PAIR}, tmp_path)


@pytest.mark.parametrize("score", [True, 1, 0.5, np.float32(0.5), np.bool_(True)])
def test_a_score_that_is_one(score, tmp_path):
    assert study(lambda task, parts: score, {"a": PAIR}, tmp_path).runs == 60


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"parts": [("a", PAIR), ("a", PAIR)]}, "names that differ"),
        ({"parts": {}}, "no parts"),
        ({"parts": {"a": (1,)}}, "two implementations"),
        ({"parts": {"a": "ab"}}, "two implementations"),
        ({"parts": {"a": (None, None)}}, "are the same"),
        ({"parts": {"a": ("x", "x")}}, "are the same"),
        ({"parts": {f"p{i}": PAIR for i in range(21)}}, "too many"),
        ({"tasks": []}, "no tasks"),
        ({"verify": 1}, "share of the tasks"),
        ({"verify": -0.1}, "share of the tasks"),
        ({"verify": 0.9, "tasks": TASKS[:2]}, "no task is left"),
        ({"seeds": 0}, "seeds and workers"),
        ({"budget": {"dollars": 3}}, "not a budget"),
        ({"budget": {"runs": 0}}, "not a budget"),
        ({"within": 0.0}, "not a width"),
        ({"score": 3}, "score is no function"),
    ],
)
def test_what_cannot_be_run(settings, match, tmp_path):
    with pytest.raises(BadInput, match=match):
        study(**{"run": lambda task, parts: True, "parts": {"a": PAIR}, "out": tmp_path / "x", **settings})
    assert not (tmp_path / "x").exists(), "no folder is left"


def test_a_folder_of_another_study_is_refused(tmp_path):
    def run(task, parts):
        return True

    def other(task, parts):
        return False

    study(run, {"a": (None, strong)}, tmp_path / "x")
    kept = lines(tmp_path / "x")
    for settings, match in (
        ({"tasks": TASKS[:-1]}, "tasks changed"),
        ({"tasks": [*TASKS[:-1], {"id": "new"}]}, "tasks changed"),
        ({"parts": {"a": (None, study)}}, r"the parts \(a\) changed"),
        ({"parts": {"b": (None, strong)}}, r"the parts \(b\) changed"),
        ({"run": other}, "run changed"),
        ({"verify": 0.2}, "verify changed"),
        ({"seed": 1}, "seed changed"),
    ):
        with pytest.raises(BadInput, match=match):
            study(**{"run": run, "parts": {"a": (None, strong)}, "out": tmp_path / "x", **settings})
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(json.dumps({"schema": 1, "kind": "memory", "algo": "rag"}))
    with pytest.raises(BadInput, match="a folder of another run"):
        study(run, {"a": (None, strong)}, tmp_path / "run")
    (tmp_path / "x" / "summary.json").unlink()
    assert study(run, {"a": (None, strong)}, tmp_path / "x").runs == 60 and lines(tmp_path / "x") == kept


def test_a_changed_function_under_the_same_name_is_noticed(tmp_path):
    def made(text):
        space = {}
        exec(f"def critique(x):\n    return {text}", space)
        return space["critique"]

    def run(task, parts):
        return True

    study(run, {"critic": (None, made("x + 1"))}, tmp_path)
    assert study(run, {"critic": (None, made("x + 1"))}, tmp_path).runs == 60
    with pytest.raises(BadInput, match=r"the parts \(critic\) changed"):
        study(run, {"critic": (None, made("x + 2"))}, tmp_path)


def test_objects_are_known_by_their_type_and_that_is_said(tmp_path, capsys):
    class Agent:
        pass

    study(lambda task, parts: True, {"a": (None, Agent())}, tmp_path, quiet=False)
    said = capsys.readouterr().out
    assert "objects in a are known by their type alone" in said and "1 part, 2 configurations" in said
    assert "still to come, from 2 runs" in said


# ------------------------------------------------------------------------------------------------ the page
def test_the_page_of_a_study(tmp_path):
    def run(task, parts):
        evolvent.spent(10 + 5 * bool(parts["<b>"]) + 0 * len(parts["plain"] or ""))
        return bool(parts["<b>"]) and task["id"] % 3 > 0

    report = study(run, {"<b>": PAIR, "plain": PAIR}, tmp_path, [{"id": i} for i in range(60)], verify=0.3)
    page = blocks.read(tmp_path)
    assert page.score.value == report.verified.value and page.hint.verdict == "Best: <b>. Leave out: plain."
    earns, tokens, *_ = page.of(blocks.Bars)
    assert [one.name for one in earns.numbers] == ["<b>", "plain"] and tokens.numbers[0].value == 5 and tokens.zero
    ways, together, configurations = page.of(blocks.Table)
    assert together.columns == ("together with", "<b>", "plain") and ways.rows[0][0] == "<b>"
    assert configurations.rows[0][0] == "<b> ✓ chosen" and len(configurations.rows) == 4
    html = (tmp_path / "report.html").read_text()
    assert "&lt;b&gt; ✓ chosen" in html and "✓ chosen" in html and "--seeds" not in html


def test_one_task_has_no_interval(tmp_path):
    report = study(lambda task, parts: 5 if parts["a"] else 4, {"a": PAIR}, tmp_path, tasks=TASKS[:1])
    assert report.parts["a"].verdict == "too few tasks to say" and "nan" not in str(report)
    assert report.verified is None and "not verified" in str(report)
    alike = study(lambda task, parts: bool(parts["a"]) * 0 + 5, {"a": PAIR}, tmp_path / "within", within=2.0)
    assert alike.parts["a"].shapley.value == 0, "nothing to divide by"


def test_a_study_is_not_evaluated_as_a_run_of_a_system(tmp_path):
    study(lambda task, parts: True, {"a": PAIR}, tmp_path)
    with pytest.raises(BadInput, match="no system made this folder") as caught:
        catalogue.of_run(RunFolder.open(tmp_path))
    assert "report.html" in caught.value.do
