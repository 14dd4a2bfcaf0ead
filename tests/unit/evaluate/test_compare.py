"""Comparison: what forms an arm, intervals that do not pretend, paired tests on the same tasks."""
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false

import io
import json
from dataclasses import replace

import numpy as np
import pytest

from evolvent.algos.evokernel.summary import summarise
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.against import own
from evolvent.evaluate.blocks import Number, Outcomes, Page
from evolvent.evaluate.compare import Arm, compare, load, notes, show, verdict
from evolvent.evaluate.live import Live
from evolvent.evaluate.pages.compare_page import write_html
from evolvent.evaluate.verdict import of_run
from evolvent.formulas.statistics import mcnemar
from evolvent.running import page_of, write_report
from evolvent.runs.account import updates
from sample_run import sample_run
from sample_search_run import sample_search_run
from sample_team_run import sample_team_run


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for algo, skill in (("rag", 0.4), ("memlift", 0.9)):
        for seed in range(3):
            sample_run(root / algo / f"seed-{seed}", algo=algo, seed=seed, skill=skill)
    return root


def test_runs_that_differ_only_in_the_seed_are_one_arm(folders):
    arms = load([folders / "rag", folders / "memlift"], page_of)
    assert [(arm.name, arm.seeds) for arm in arms] == [("rag", (0, 1, 2)), ("memlift", (0, 1, 2))]
    assert arms[0].scores == tuple(
        RunFolder.open(folders / "rag" / f"seed-{s}").summary()["score"]["value"] for s in range(3)
    )


def test_settings_that_differ_are_named(tmp_path):
    for k in (1, 5):
        path = sample_run(tmp_path / f"k{k}", tasks=4)
        content = json.loads((path / "config.json").read_text())
        content["config"]["k"] = k
        (path / "config.json").write_text(json.dumps(content))
    assert [arm.name for arm in load([tmp_path / "k1", tmp_path / "k5"], page_of)] == ["memlift (k=1)", "memlift (k=5)"]


def test_a_setting_is_named_as_its_flag_says_it(tmp_path):
    for i, embedder in enumerate(("hash", "minilm")):
        path = sample_run(tmp_path / embedder, tasks=4)
        content = json.loads((path / "config.json").read_text())
        content["config"] |= {"plan": {"embedder": embedder, "k": i}, "note": "x"}
        (path / "config.json").write_text(json.dumps(content))
    arms = load([tmp_path / "hash", tmp_path / "minilm"], page_of)
    assert arms[0].name == "memlift (embedder=hash, plan.k=0)", "k alone is another field"


def test_the_same_run_twice_is_refused(folders):
    with pytest.raises(BadInput, match="same seed"):
        load([folders / "rag", folders / "rag" / "seed-0"], page_of)


def test_a_run_without_a_score_is_named(tmp_path):
    path = sample_run(tmp_path / "r", tasks=4)
    summary = RunFolder.open(path).summary()
    RunFolder.open(path).write_summary({**summary, "score": {"name": "success", "value": None}})
    with pytest.raises(BadInput, match="no score"):
        load([path], page_of)
    run = RunFolder.open(path)
    assert of_run(run.manifest(), page_of(run), path).sentence == "No verdict: the run has no score."


def test_unfinished_runs_are_refused_alone_and_left_out_beside_others(tmp_path):
    sample_run(tmp_path / "seed-0", tasks=4, summary=False)
    with pytest.raises(BadInput, match="no finished run"):
        load([tmp_path], page_of)
    sample_run(tmp_path / "seed-1", seed=1, tasks=4)
    assert load([tmp_path], page_of)[0].seeds == (1,)


def test_a_glob_may_hold_pages_but_no_wrong_path(tmp_path):
    sample_run(tmp_path / "seed-0", tasks=4)
    page, said = tmp_path / "compare.html", []
    page.write_text("<html>")
    (tmp_path / "notes.txt").write_text("")
    assert [arm.seeds for arm in load([page, tmp_path / "seed-0"], page_of, said.append)] == [(0,)]
    assert said == [f"{page} is a page, no run: passed over"]
    for wrong in ("notes.txt", "nowhere", "nowhere.html"):
        with pytest.raises(BadInput, match=r"not a run folder|no such folder"):
            load([page, tmp_path / "seed-0", tmp_path / wrong], page_of)
    with pytest.raises(BadInput, match=r"not a run folder|no such folder"):
        load([page], page_of)


def test_the_paired_test_pairs_each_task_of_each_seed(folders):
    reference, other = load([folders / "rag", folders / "memlift"], page_of)
    _, standing = compare([reference, other])
    outcomes = []
    for algo in ("memlift", "rag"):
        rows = [r for s in range(3) for r in RunFolder.open(folders / algo / f"seed-{s}").read_metrics()]
        outcomes.append(np.array([r["success"] for r in rows if r["phase"] == "after"]))
    assert standing.paired.n == 72 and standing.paired.p == mcnemar(*outcomes)
    assert standing.paired.difference == pytest.approx(float((outcomes[0] - outcomes[1]).mean()))
    assert standing.better[0] == 1.0


def test_arms_with_another_number_of_passes_still_pair(tmp_path):
    for passes in (1, 3):
        path = sample_run(tmp_path / str(passes), algo=f"a{passes}", tasks=8, passes=passes)
        rows = [{**r, "pass": passes} if r["phase"] == "after" else r for r in RunFolder.open(path).read_metrics()]
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert compare(load([tmp_path / "1", tmp_path / "3"], page_of))[1].paired.n == 8


def _arm(outcomes_by_seed, name="a", scores=(), score="success", higher=True):
    """Runs whose score is the share of their tasks that went well, or one of ``scores``."""
    pages = []
    for seed, outcomes in enumerate(outcomes_by_seed):
        rows = tuple((f"t{i}", int(ok), f"k{i % 3}") for i, ok in enumerate(outcomes))
        value = scores[seed] if scores else float(np.mean(outcomes))
        pages.append(Page("", (Outcomes(rows),), Number(score, value, higher_is_better=higher)))
    return Arm(name, "e", tuple(range(len(pages))), tuple(pages))


def test_equal_scores_of_several_seeds_do_not_get_an_interval_of_no_width():
    (standing,) = compare([_arm([[1, 0] * 12] * 3)])
    lo, hi = standing.ci95
    assert lo < 0.5 < hi and 0.1 < hi - lo < 0.4 and standing.interval_over == "seeds, tasks"


@pytest.mark.parametrize("ok", [0, 1])
def test_all_right_or_all_wrong_is_not_certainty(ok):
    for seeds in (1, 3):
        (standing,) = compare([_arm([[ok] * 10] * seeds)])
        assert standing.ci95[1] - standing.ci95[0] > 0.05


def test_a_score_that_is_no_success_rate_is_resampled_over_seeds():
    arm = _arm([[1, 0]] * 4, scores=(10.0, 20.0, 30.0, 40.0), score="regret", higher=False)
    (standing,) = compare([arm])
    assert standing.interval_over == "seeds" and standing.ci95[0] < standing.iqm < standing.ci95[1]


def test_lower_is_better_turns_the_probability_round():
    low, high = (_arm([of] * 2, name, higher=False) for name, of in (("low", [0, 0]), ("high", [1, 1])))
    assert compare([high, low])[1].better[0] == 1.0


def test_the_page_leads_to_the_reports(tmp_path):
    for algo in ("rag", "memlift"):
        path = sample_run(tmp_path / "my runs" / algo, algo=algo, tasks=4)
    (path / "report.html").write_text("")
    html = write_html(compare(load([tmp_path / "my runs"], page_of)), tmp_path / "c.html").read_text()
    assert '<a href="my%20runs/memlift/report.html">seed 0</a>' in html and html.count("report.html") == 1


def _said(*arms):
    standings = compare(arms)
    (one,) = standings[1].against
    return one, verdict(standings)


def test_the_verdict_is_against_the_first_arm():
    one, said = _said(_arm([[1, 0] * 6 + [0] * 12] * 3, "rag"), _arm([[1, 1] * 6 + [1] * 6 + [0] * 6] * 3, "memlift"))
    assert one.state == "better" and said.sentence == "memlift: better than rag."
    assert said.lines()[0].startswith("memlift against rag: +50 points [") and not said.note
    one, _ = _said(_arm([[1, 1] * 12] * 2, "rag"), _arm([[1, 1] * 12] * 2, "memlift"))
    assert one.state == "same" and "+0 points [-7, +7]" in one.numbers, "perfect twice is no certainty"


def test_one_seed_says_so_and_too_few_tasks_say_nothing():
    one, said = _said(_arm([[0] * 24], "a"), _arm([[1] * 24], "b"))
    assert one.state == "better" and said.note.startswith("One seed")
    assert _said(_arm([[0] * 4], "a"), _arm([[1] * 4], "b"))[0].state == "unknown"


def test_whose_one_seed_it_is_and_what_the_interval_rests_on(tmp_path):
    few, many = _arm([[1, 0] * 12], "few"), _arm([[1, 0] * 12] * 3, "many")
    assert verdict(compare([few, many])).note == "One seed of few: another one may come out otherwise."
    assert verdict(compare([few, _arm([[1] * 24], "b")])).note.startswith("One seed each")
    alike = notes(compare([_arm([[1] * 24] * 2)]))
    assert len(alike) == 1 and "Wilson" in alike[0], "two seeds are not one, and nothing was resampled"
    assert any("Fewer than 5 seeds" in line for line in notes(compare([many])))


# ------------------------------------------------------------------------------------------- seeds of one setting
def _seeds(folder, n, kind=sample_run, **more):
    """Runs that one command made: its folders and its words."""
    for seed in range(n):
        path = kind(folder / f"seed-{seed}", seed=seed, **more)
        content = json.loads((path / "config.json").read_text())
        content["command"] = f"evolvent run {content['algo']} --passes 2 --seeds {' '.join(map(str, range(n)))}"
        (path / "config.json").write_text(json.dumps(content))
    return folder


def test_seeds_of_one_setting_have_a_verdict_of_their_own(tmp_path):
    out = io.StringIO()
    standings = compare(load([_seeds(tmp_path / "runs", 3)], page_of))
    show(standings, Live(True, stream=out))
    said = verdict(standings)
    assert said.sentence == "Better than no memory on held-out tasks."
    assert said.note == "3 seeds together." and "on the same 72 tasks of 3 seeds; " in said.lines()[0]
    assert said.command == "evolvent run memlift --passes 2 --seeds 0 1 2 3 4" and said.command in out.getvalue()
    assert "P(better)" not in out.getvalue(), "no column of dashes"
    html = write_html(standings, tmp_path / "c.html").read_text()
    curves, bars = html.split('class="card"')[1:]
    assert said.sentence in html, "the page says what the terminal says"
    assert "without memory" in curves and "no memory on held-out tasks" in bars, "the control"


def test_of_five_seeds_no_sixth_is_asked_for(tmp_path):
    said = verdict(compare(load([_seeds(tmp_path / "runs", 5)], page_of)))
    assert said.state == "better" and not said.advice and not said.command


def test_seeds_that_go_on_together(tmp_path):
    runs = _seeds(tmp_path / "runs", 2, sample_team_run, skill=0.0)
    said = verdict(compare(load([runs], page_of)))
    assert said.state == "same" and "means of 2 seeds" in said.lines()[0]
    assert said.command == f"evolvent run mat --resume {runs} --steps 192000 --seeds 0 1"


def test_of_two_arms_each_is_also_reported_by_itself(folders):
    standings = compare(load([folders / "rag", folders / "memlift"], page_of))
    assert len(verdict(standings).lines()) == 1, "the numbers are those of the comparison"
    assert notes(standings)[1] == "memlift: better than no memory on held-out tasks."
    assert not [line for line in notes(standings[:1]) if "no memory" in line], "a single arm's verdict says it"


@pytest.mark.parametrize(("by_itself", "colour"), [("better", "better"), ("worse", "same"), ("same", "same")])
def test_what_is_no_better_than_nothing_has_no_colour(folders, by_itself, colour):
    first, second = compare(load([folders / "rag", folders / "memlift"], page_of))
    alone = replace(second.arm.alone, against=tuple(replace(a, state=by_itself) for a in second.arm.alone.against))
    said = verdict([first, replace(second, arm=replace(second.arm, alone=alone))])
    assert said.sentence.startswith("memlift: better than rag") and said.state == colour


def test_systems_on_different_worlds_are_reported_by_themselves(tmp_path):
    for env in ("spread:n=3", "other"):
        path = sample_team_run(tmp_path / env.partition(":")[0], algo="mat")
        content = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({**content, "env": env}))
    said = verdict(compare(load([tmp_path], page_of)))
    assert said.sentence == "mat on other: better than random actions. mat on spread:n=3: better than random actions."


def test_the_page_of_one_of_several_seeds_leads_to_all_of_them(tmp_path):
    runs = _seeds(tmp_path / "runs", 2)
    page = write_report(runs / "seed-1").read_text()
    assert "This is one of the seeds 0, 1." in page and "One seed" not in page
    assert f"evolvent compare {runs}" in page and "--seeds 0 1 2 3 4" not in page


def test_equal_gains_of_two_seeds_are_no_certainty():
    """Student's t over two equal gains has no width; what single attempts leave open has."""
    row = {"success_mean": 0.5, "value": 0.5, "n": 8, "tasks": 8}
    chance = {"name": "random actions", "success_mean": 0.25, "value": 0.25, "n": 8, "tasks": 8}
    summary = {"score": {"name": "return", "value": 0.5}, "greedy": row, "baseline": chance}
    run = updates.updates([])
    result = updates.judged(summary, run, judged_as="", beside=[], against=updates.levels(summary, run))
    (one,) = own([Page("", result.comparisons, result.score)] * 2)
    assert one.state == "same" and one.numbers.startswith("50 % against 25 %, +25 points [-")


def test_searches_are_compared_by_their_tasks(tmp_path):
    for seed in range(2):
        sample_search_run(tmp_path / f"s{seed}", seed=seed, tasks=12)
    (standing,) = standings = compare(load([tmp_path], page_of))
    assert standing.interval_over == "seeds, tasks" and "mean returns" not in " ".join(notes(standings))
    assert verdict(standings).lines()[0].startswith("greedy against cot_sc: ")


def _programs(path, first, last, *, select="value", env="kernels", command="evolvent run evokernel"):
    """A run over programs: gate and ratio of the first and the last attempt at each."""
    config = {"env": env, "seed": 0, "select": select}
    made = RunFolder.create(path, algo="evokernel", config=config, env=env, seed=0, command=command, kind="programs")
    facts = {"phase": "draft", "source": "int x;", "words": "", "start": None, "advice": [], "values": {}, "gain": 0.0}
    facts |= {"low": None, "high": None, "us": None, "seconds": 1.0, "tokens": 9, "prompt_tokens": 9}
    with made as folder:
        for attempt, ends in ((1, first), (2, [("", 9.0)] * len(first)), (3, last)):
            for i, (gate, ratio) in enumerate(ends):
                judged = {"gate": gate, "ratio": ratio, "valid": int(attempt != 2)}  # the harness failed
                folder.log(len(first) * attempt + i, kernel=f"k{i}", attempt=attempt, **judged, **facts)
        summary = summarise(folder.read_metrics(), [f"k{i}" for i in range(len(first))])
        folder.write_summary({**summary, "select": select, "refine": select != "none"})
    return path


def test_programs_are_compared_with_their_first_drafts_and_with_other_runs(tmp_path):
    wrong, right, fast = ("compile", 0.0), ("", 1.0), ("", 2.0)
    ends = [wrong] * 8, [right] * 6 + [fast] * 2
    run = RunFolder.open(_programs(tmp_path / "value", *ends))
    said = of_run(run.manifest(), page_of(run), run.path)
    assert said.sentence == (
        "Better than its first attempts in programs that are right; "
        "not shown to differ from its first attempts in programs that are faster."
    )
    assert "8 won, 0 lost" in said.lines()[0] and "on the same 8 programs" in said.lines()[0]
    assert said.command == "evolvent run evokernel --select none --no-refine"
    words = "evolvent run evokernel --env kernels:faster"
    given = RunFolder.open(_programs(tmp_path / "given", *ends, env="kernels:faster", command=words))
    said = of_run(given.manifest(), page_of(given), given.path)  # nothing can be drafted there
    assert said.command == "evolvent run evokernel --env kernels:faster --select none"
    _programs(tmp_path / "none", [wrong] * 8, [right] * 8, select="none")
    standings = compare(load([tmp_path / "none", tmp_path / "value"], page_of))
    assert standings[0].interval_over == "tasks" and standings[1].paired.n == 8
    assert verdict(standings).sentence == (
        "evokernel (select=value): not shown to differ from evokernel (select=none) in programs that are right "
        "and in programs that are faster."
    )
    control = RunFolder.open(tmp_path / "none")
    said = of_run(control.manifest(), page_of(control), control.path)
    assert "--seeds" in said.command, "the control needs no control"


def _scored(scores, name, higher=True):
    pages = tuple(Page("", (), Number("return", score, higher_is_better=higher)) for score in scores)
    return Arm(name, "e", tuple(range(len(scores))), pages)


def test_scores_of_the_same_seeds_are_paired():
    noisy = [10.0, 20.0, 30.0, 40.0]
    one, _ = _said(_scored(noisy, "a"), _scored([x + 1 + i / 10 for i, x in enumerate(noisy)], "b"))
    assert one.state == "better" and one.numbers.startswith("a difference of +1.1")
    loss, _ = _said(_scored(noisy, "a", False), _scored([x + 1 + i / 10 for i, x in enumerate(noisy)], "b", False))
    assert loss.state == "worse" and "lower is better" in loss.numbers
    assert _said(_scored([1.0, 3.0], "a"), _scored([3.0, 3.5], "b"))[0].state == "same", "two seeds are few"
    assert _said(_scored([1.0], "a"), _scored([9.0], "b"))[0].state == "unknown"


def test_two_single_runs_have_no_probability_of_improvement():
    _, standing = compare([_arm([[0, 1, 0]], "a"), _arm([[1, 1, 1]], "b")])
    assert standing.better is None and standing.paired.n == 3


def test_a_single_run_beside_several_has_no_probability_either():
    for arms in ([_arm([[0, 1]] * 3), _arm([[1, 1]], "b")], [_arm([[0, 1]]), _arm([[1, 1]] * 3, "b")]):
        assert compare(arms)[1].better is None


def test_coverage_of_the_two_stage_interval():
    """Five seeds with rates from Beta(6, 4), 24 tasks each: the 95 % interval holds the truth about so often."""
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        rates = rng.beta(6, 4, 5)
        (standing,) = compare([_arm([(rng.random(24) < p).astype(int).tolist() for p in rates])])
        hits += standing.ci95[0] <= 0.6 <= standing.ci95[1]
    assert 0.88 <= hits / 200 <= 1.0


def test_table_and_page_say_the_same(folders, tmp_path):
    standings = compare(load([folders / "rag", folders / "memlift"], page_of))
    out = io.StringIO()
    show(standings, Live(True, stream=out))
    html = write_html(standings, tmp_path / "c.html").read_text()
    for text in (
        "memlift: better than rag.",
        "memlift against rag: +",
        "P(better)",
        "Fewer than 5 seeds",
        "over seeds",
    ):
        assert text in out.getvalue() and text in html
    assert html.count("<svg") == 2 and "<script" not in html


@pytest.mark.parametrize(("n", "state"), [(2, "unknown"), (4, "unknown"), (5, "better"), (None, "better")])
def test_a_score_of_a_few_outcomes_gives_no_verdict_against_another_run(n, state):
    low, high = (Number("return", value, (value - 0.01, value + 0.01), n=n) for value in (0.2, 0.9))
    arms = [Arm(name, "e", (0,), (Page("", (), score=score),)) for name, score in (("a", low), ("b", high))]
    (found,) = compare(arms)[1].against
    assert found.state == state and ("too few" in found.numbers) == (state == "unknown")
