"""Reports and comparisons of runs that train a language model: they count attempts, and say what the folder says."""
# pyright: reportGeneralTypeIssues=false

import io
import json
import re
import shutil

import pytest
from test_report import NASTY, Page

from evolvent import catalogue
from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.evaluate.compare import cells, compare, load
from evolvent.evaluate.live import Live, interval
from evolvent.evaluate.outcome import tell
from evolvent.evaluate.pages.compare_page import write_html
from evolvent.formulas.call_match import judgement, match
from evolvent.running import page_of, write_report
from evolvent.runs.account.changed import write
from evolvent.runs.account.samples import first_and_last
from evolvent.runs.account.updates import success_interval, updates
from sample_language_run import sample_language_run
from sample_run import sample_run
from sample_team_run import sample_team_run


def html(folder):
    return write_report(folder).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return sample_language_run(tmp_path_factory.mktemp("run") / "r")


def test_every_part_is_there(folder):
    page = Page(html(folder))
    for part in (
        "What poad learned on overcooked:tomato-salad",
        "smollm2-135m",
        "1,280 attempts",
        "40 updates",
        "40.3k tokens sampled",
        "held-out return, greedy, 95 % interval",
        "before learning, 95 % interval",
        "answers sampled, 95 %",
        "random play, 95 %",
        "Held-out tasks solved:",
        "Return of an attempt",
        "Success",
        "Warnings",
        "(update 3, 23)",
        "docs/when-it-does-not-learn.md#no-difference",
        "Credit of every token",
        "Attempts, first and last",
        "after 32 attempts",
        "after 1,280 attempts",
        "entropy where there is a choice, nats",
        "loss",
        "distance from the reference",
        "Always 0: tokens clipped below.",
        "groups in which all earned the same",
        "tokens of an attempt",
        "tokens a second, sampling",
        "learn 57 %",
        "Evaluations",
        "Every field",
        "evolvent run poad --seed 0",
    ):
        assert part in page.words, part
    assert "environment steps" not in page.words and not page.links


def _short(row):
    return interval(row["value"], row["ci95"], rate=False).partition(" ")[0]


def test_the_numbers_are_those_of_the_folder(folder):
    rows, words = RunFolder.open(folder).read_metrics(), Page(html(folder)).words
    judged = [row for row in rows if row.get("phase") == "eval"]
    assert f"{_short(judged[-1])} held-out return, greedy" in words
    assert f"{_short(judged[0])} before learning, 95 % interval" in words
    lo, hi = success_interval(judged[0])
    before = f"{100 * judged[0]['success_mean']:.0f} % [{100 * lo:.0f}, {100 * hi:.0f}] before learning"
    assert f"Held-out tasks solved: {before}" in words
    learn = sum(row["learn_s"] for row in rows if "update" in row)
    assert f"{40_320 / learn:.4g} tokens a second, training" in words


def test_a_warning_is_said_once_with_every_update_that_gave_it(folder):
    assert Page(html(folder)).words.count("nothing is compared") == 1


@pytest.mark.parametrize("updates", [0, 1, 3])
def test_a_run_that_has_only_begun_has_a_report_too(tmp_path, updates):
    words = Page(html(sample_language_run(tmp_path / "r", updates=updates, summary=False, credit=False))).words
    assert "has not ended" in words and "random play, 95 %" in words and "Credit of every token" not in words
    assert "before learning, 95 % interval" not in words and "after it" not in words, (
        "nothing was judged after learning yet"
    )


def test_what_models_and_tasks_say_is_never_markup(tmp_path):
    page = html(sample_language_run(tmp_path / "r", nasty=NASTY + "\ud800\u202e שלום </script>"))
    assert "<script>alert" not in page and "<img" not in page and "\u202e" not in page and "\x1b" not in page
    assert page.count("<script") == 2 == page.count("</script>"), "the numbers, and the script of this package"
    assert "<script>alert(1)</script>" in Page(page).words and "שלום" in page and "\ud800" not in page


def test_runs_that_do_not_say_their_kind_have_that_of_their_system(folder, tmp_path):
    """Those of earlier versions."""
    memory, other = sample_run(tmp_path / "m", tasks=4), sample_run(tmp_path / "o", algo="no_such", tasks=4)
    made = {"language": (folder, "attempts"), "memory": (memory, "steps"), "": (other, "steps")}
    made["team"] = sample_team_run(tmp_path / "t", updates=12), "environment steps"
    for name, (path, unit) in made.items():
        copied = shutil.copytree(path, tmp_path / f"of {name}")
        content = json.loads((copied / "config.json").read_text())
        del content["kind"]
        (copied / "config.json").write_text(json.dumps(content))
        opened = RunFolder.open(copied)
        assert catalogue.kind_of(opened).name == name and page_of(opened).unit == unit
        assert page_of(opened).kind == catalogue.kind(name).title
        if name:
            assert page_of(opened) == page_of(RunFolder.open(path)), "its page is the same"


def test_samples_are_the_first_and_the_extremes_of_the_last_update():
    def attempt(step, reward):
        return {"step": step, "nodes": [{"kind": "action", "reward": reward}, {"kind": "observation"}]}

    records = [attempt(8, 0.0), attempt(8, 1.0), attempt(8, 0.5), attempt(16, 0.0)]
    records += [attempt(24, r) for r in (0.3, 0.9, 0.1, 0.5, 0.7)]
    headings = [section.title for section in first_and_last(iter(records))]
    chosen = [re.search(r"after (\d+) attempts: return (.+)", said).groups() for said in headings]
    assert [(int(step), float(earned)) for step, earned in chosen] == [
        (8, 0.0),
        (8, 1.0),
        (24, 0.1),
        (24, 0.3),
        (24, 0.7),
        (24, 0.9),
    ]
    assert len(first_and_last(records[:3])) == 3 and first_and_last([]) == []


def test_broken_credit_costs_its_section_and_says_why(tmp_path):
    folder = sample_language_run(tmp_path / "r", updates=2)
    for content, said in (('{"rules": []}', "lacks a part"), ("{", "is not JSON")):
        (folder / "credit.json").write_text(content)
        words = Page(html(folder)).words
        assert "The credit of the attempts is not shown" in words and said in words and "Evaluations" in words


def test_comparisons_count_attempts(tmp_path):
    for seed in range(2):
        sample_language_run(tmp_path / "poad" / f"seed-{seed}", seed=seed)
        sample_language_run(tmp_path / "grpo" / f"seed-{seed}", algo="grpo", seed=seed, skill=0.3, updates=20)
    standings = compare(load([tmp_path / "poad", tmp_path / "grpo"], page_of))
    words = Page(write_html(standings, tmp_path / "c.html").read_text(encoding="utf-8")).words
    assert (
        "IQM at 640 attempts" in words and "at 640 attempts all of them" in words and "environment steps" not in words
    )
    assert "attempts" in cells(standings)[0]


def test_an_attempt_that_broke_everything_leaves_gaps(tmp_path):
    folder = sample_language_run(tmp_path / "r", updates=4, summary=False)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    names = ("return", "success_mean", "tokens_mean", "cut_mean", "flat_mean", "value", "ci95")
    gone = [{**row, **{name: None for name in names if name in row}} for row in lines]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gone))
    assert "Held-out tasks solved" not in Page(html(folder)).words


@pytest.mark.parametrize("make", [sample_language_run, sample_team_run])
def test_the_table_at_the_end_says_before_after_sampled_and_random(make, tmp_path):
    run, out = RunFolder.open(make(tmp_path / "r", updates=12)), io.StringIO()
    summary = run.summary()
    tell(run, page_of(run), Live(True, stream=out), run.path / "report.html")
    language = make is sample_language_run
    judged = [(row["step"], row) for row in run.read_metrics() if row.get("phase") == "eval"]
    last = judged[-1][0]
    want = [("random play" if language else "random actions", 0, updates(run.read_metrics()).chance)]
    want += [("greedy", step, row) for step, row in judged]
    want += [("answers sampled" if language else "actions sampled", last, summary["sampled"])]
    said = [re.split(r"\s{2,}", line) for line in out.getvalue().splitlines() if "against" not in line]
    found = [cells for cells in said if re.match(r"(random|greedy|answers|actions) ?\w*$", cells[0])][1:]  # the heading
    assert [(name, int(step.replace(",", ""))) for name, step, *_ in found] == [(name, step) for name, step, _ in want]
    assert (judged[0][0] == 0) is language, "what it did before learning"
    for (_, _, value, success, *_), (_, _, row) in zip(found, want, strict=True):
        assert value == interval(row["value"], row["ci95"], rate=False)
        assert success == interval(row["success_mean"], success_interval(row)) or success_interval(row) is None
    assert f"{_short(summary['greedy'])} [" in found[-2][2]


def parts(page):
    """The page's sections by their headings."""
    return {part.partition("</h2>")[0]: part for part in page.split("<section><h2>")[1:]}


def test_what_the_learner_tells_is_apart_from_what_the_environment_tells(tmp_path):
    shown = parts(write_report(sample_language_run(tmp_path / "run")).read_text(encoding="utf-8"))
    learner, world = shown["Learning in numbers"], shown["What the environment tells"]
    assert "<h3>ratio</h3>" in learner and "<h3>loss</h3>" in learner and "<h3>reward overlong</h3>" in learner
    assert "<h3>reward format</h3>" in world and "ratio" not in world and "overlong" not in world
    rows = RunFolder.open(tmp_path / "run").read_metrics()
    assert updates(rows).reported() == [
        "success_mean",
        "tokens_mean",
        "cut_mean",
        "flat_mean",
        "reward_format_mean",
    ]
    assert not set(updates(rows).reported()) & set(updates(rows).learned())


def test_where_nothing_but_success_is_reported_there_is_no_such_part(tmp_path):
    path = sample_language_run(tmp_path / "run")
    lines = (path / "metrics.jsonl").read_text().splitlines()
    rows = [{k: v for k, v in json.loads(line).items() if k != "reward_format_mean"} for line in lines]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "What the environment tells" not in write_report(path).read_text(encoding="utf-8")


def test_calls_at_held_out_tasks_stand_before_and_after(tmp_path):
    folder = sample_language_run(tmp_path / "r")
    gold = [{"name": "book", "arguments": {"day": "Monday"}}]
    for when, said in (("before", []), ("after", gold)):
        episode = Episode("t", env="functions", id=when)
        episode.observe("a table on Monday")
        episode.act(str(said), reward=float(said == gold))
        episode.meta["judged"] = [judgement(said, gold, match(said, gold), right=said == gold)]
        episode.end(terminated=True, success=said == gold)
        write(folder, when, [episode])
    words = Page(html(folder)).words
    assert "right function, of 1 that need a call 0 % [0, 79] 100 % [21, 100]" in words
    assert "before: wrong" in words and "Before: book is not called." in words
