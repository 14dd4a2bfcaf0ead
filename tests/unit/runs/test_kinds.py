"""Kinds of run from outside: one that nobody describes, one beside its system, one of an installed package."""

import json
import re
import sys
from contextlib import suppress

import pytest

from evolvent import catalogue, running
from evolvent.cli import main
from evolvent.core.folder import RunFolder
from evolvent.evaluate import blocks
from evolvent.evaluate.blocks import Comparison, Curve, Headline, Table, Text
from sample_language_run import sample_language_run
from sample_run import sample_run
from sample_search_run import sample_search_run
from sample_team_run import sample_team_run

SYSTEM = '''
"""Numbers that grow."""

from dataclasses import dataclass

from evolvent.runs.shell import Shell


@dataclass(frozen=True)
class Config:
    KIND = "growth"
    env: str = ""
    seed: int = 0
    updates: int = 5


def run(config, folder, live, *, resume=False):
    shell, x = Shell(folder, live, total=config.updates, resume=resume), 1.0 + config.seed
    for update in shell.updates():
        x *= 1.5
        shell.log(update + 1, {"return": x}, {"loss": 1 / x})
    score = {"name": "return", "value": x, "ci95": [x - 1, x + 1], "higher_is_better": True}
    before = {"value": 1.0 + config.seed, "ci95": [config.seed, 2.0 + config.seed]}
    return {"algo": "mine", "env": config.env, "seed": config.seed, "score": score, "before": before}
'''
KIND = """
from evolvent.evaluate.blocks import Headline, Number, Page, Section, Table, Text
from evolvent.runs.kind import Kind


def account(folder):
    rows = folder.read_metrics()
    last = Number("largest number", max([row["return"] for row in rows], default=None))
    table = Table(("update", "number"), tuple((row["update"], row["return"]) for row in rows), said=True)
    words = Section("In words <b>", (Text(("It grew & grew.",)), table))
    return Page("", (Headline((last,)), words), score=last, facts=(f"{len(rows)} numbers",), steps=len(rows))


KIND = Kind("growth", "growth: numbers that grow", account)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(SYSTEM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def described(here):
    (here / "mine.py").write_text(SYSTEM + KIND)
    return here


def bring(place, monkeypatch, kinds, **modules):
    """Modules as pip leaves those of a package in a folder, and what they bring as kinds."""
    for name, text in modules.items():
        place.mkdir(exist_ok=True)
        (place / f"{name}.py").write_text(text)
    info = place / "kinds_of_others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kinds-of-others\nVersion: 1.0\n")
    rows = [f"{name} = {where}" for name, where in kinds.items()]
    (info / "entry_points.txt").write_text("\n".join(["[evolvent.kinds]", *rows, ""]))
    monkeypatch.syspath_prepend(place)
    catalogue.kinds.cache_clear()


@pytest.fixture(autouse=True)
def known():
    """Kinds are looked up once a process: those of one test are not those of the next."""
    yield
    catalogue.kinds.cache_clear()


def command(capsys, *arguments):
    """What a command says that ends with exit code 0."""
    main([*map(str, arguments)])
    return capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ nobody describes it
def test_a_run_of_an_unknown_kind_has_a_page_of_what_it_logged(here, capsys):
    said = command(capsys, "run", "mine.py", "--out", "r")
    assert "Better than before learning." in said and "return: 7.6 [6.6, 8.6]" in said
    assert "report: r/report.html" in said
    assert RunFolder.open("r").manifest()["kind"] == "growth"
    page = blocks.read(here / "r")
    assert page is not None and page == running.page_of(RunFolder.open("r"))
    drawn = {curve.y_label: curve.lines[-1] for curve in page.of(Curve)}
    want = [1.5**update for update in range(1, 6)]
    assert drawn["return"].x == drawn["loss"].x == (1, 2, 3, 4, 5)
    assert drawn["return"].y == pytest.approx(want) and drawn["loss"].y == pytest.approx([1 / x for x in want])
    (against,) = page.of(Comparison)
    assert (against.name, against.own.value, against.other.value) == ("before learning", pytest.approx(1.5**5), 1.0)
    assert page.score is not None and page.score.ci95 == pytest.approx((1.5**5 - 1, 1.5**5 + 1)) and page.steps == 5
    html = (here / "r" / "report.html").read_text("utf-8")
    assert '<div class="verdict better">' in html and html.count("<svg") == 2
    assert "Return of an attempt" in html and "<h3>loss</h3>" in html


def test_runs_of_an_unknown_kind_are_listed_and_compared(here, capsys):
    for seed in (0, 1):
        command(capsys, "run", "mine.py", "--seed", seed, "--out", f"runs/s{seed}")
    listed = command(capsys, "runs", "runs", "--plain")
    for name, score in (("s0", "7.6 [6.6, 8.6]"), ("s1", "15.2 [14.2, 16.2]")):
        (line,) = [line for line in listed.splitlines() if line.startswith(f"{name} ")]
        assert score in line and "Better than before learning." in line and "finished" in line
    html = (here / "runs" / "runs.html").read_text("utf-8")
    assert "growth" in html and 'href="s0/report.html"' in html
    compared = command(capsys, "compare", "runs/s0", "runs/s1", "--html", "c.html", "--plain")
    assert re.search(r"\nmine +2 +5 +11\.4 \[", compared) or re.search(r"\nmine +2 +5 +11 \[", compared)
    html = (here / "c.html").read_text("utf-8")
    assert "Better than before learning." in compared or "Not shown to differ from before learning." in compared
    assert "Return of an attempt" in html and "<svg" in html


def test_a_run_of_an_unknown_kind_that_has_ended_is_resumed_to_the_same_page(here, capsys):
    command(capsys, "run", "mine.py", "--out", "r")
    kept = {name: (here / "r" / name).read_bytes() for name in ("metrics.jsonl", "summary.json", "page.json")}
    (here / "r" / "page.json").unlink()
    (here / "r" / "report.html").unlink()
    said = command(capsys, "run", "mine.py", "--resume", "r")
    assert "this run has ended; nothing to do" in said and (here / "r" / "report.html").exists()
    assert {name: (here / "r" / name).read_bytes() for name in kept} == kept
    (here / "mine.py").unlink()  # nothing that only reads needs its file
    assert "Better than before learning." in command(capsys, "runs", ".", "--plain")
    assert running.write_report(here / "r").exists() and (here / "r" / "page.json").read_bytes() == kept["page.json"]


def test_a_run_of_an_unknown_kind_that_was_stopped_is_listed_and_goes_on(here, capsys):
    stop = "        if update == 2 and not resume:\n            raise RuntimeError('not today')\n"
    text = SYSTEM.replace("        x *= 1.5\n", stop + "        x *= 1.5\n")
    (here / "mine.py").write_text(text.replace("    for update", "    shell.go_on(0, -1)\n    for update"))
    with pytest.raises(SystemExit):
        main(["run", "mine.py", "--out", "r"])
    assert re.search(r"\nr  .* failed ", command(capsys, "runs", ".", "--plain"))
    page = running.page_of(RunFolder.open("r"))
    assert page.kind == "growth" and page.score is None and {len(c.lines[-1].x) for c in page.of(Curve)} == {2}
    assert "has not ended" in running.write_report(here / "r").read_text("utf-8")
    command(capsys, "run", "mine.py", "--resume", "r")
    assert running.page_of(RunFolder.open("r")).score is not None
    assert {len(curve.lines[-1].x) for curve in running.page_of(RunFolder.open("r")).of(Curve)} == {5}


def test_outcomes_that_name_no_task_are_counted(here, capsys):
    logged = 'shell.log(update + 1, {"return": x}, {"loss": 1 / x})'
    (here / "mine.py").write_text(
        SYSTEM.replace(logged, "folder.log(update + 1, success=update % 2)\n        shell.update += 1")
    )
    assert "return: 7.6 [6.6, 8.6]" in command(capsys, "run", "mine.py", "--out", "r")
    assert "2 of 5 right" in (here / "r" / "report.html").read_text("utf-8")


# ------------------------------------------------------------------------------------------------ beside its system
def test_a_kind_beside_its_system_makes_the_page(described, capsys):
    said = command(capsys, "run", "mine.py", "--out", "r")
    assert "No verdict: nothing was recorded to compare it with." in said and re.search(r"\n +5 +7\.59", said)
    page = blocks.read(described / "r")
    assert page is not None and page.kind == "growth: numbers that grow" and page.steps == 5
    assert [len(page.of(kind)) for kind in (Headline, Table, Curve)] == [1, 1, 0]
    html = (described / "r" / "report.html").read_text("utf-8")
    for shown in (
        "growth: numbers that grow",
        "largest number",
        "In words &lt;b&gt;",
        "It grew &amp; grew.",
        "5 numbers",
    ):
        assert shown in html, shown
    assert "<b>In" not in html and "<svg" not in html
    command(capsys, "runs", ".", "--plain")
    assert "growth: numbers that grow" in (described / "runs.html").read_text("utf-8")


def test_the_page_of_a_kind_beside_its_system_needs_the_file_only_while_it_runs(described, capsys):
    """What reads a run never runs its file."""
    command(capsys, "run", "mine.py", "--out", "runs/r")
    before = (described / "runs" / "r" / "page.json").read_bytes()
    for path in (described / "mine.py", described / "runs" / "r" / "system" / "mine.py"):
        path.write_text("raise AssertionError('run to be read')")
    command(capsys, "runs", "runs", "--plain")
    assert "growth: numbers that grow" in (described / "runs" / "runs.html").read_text("utf-8")
    assert "7.59" in command(capsys, "compare", "runs/r", "--plain")
    assert "It grew &amp; grew." in running.write_report(described / "runs" / "r").read_text("utf-8")
    assert (described / "runs" / "r" / "page.json").read_bytes() == before


@pytest.mark.parametrize("torn", ["", "{", '{"schema": 99}', "[]", '{"schema": 1, "kind": 3}'])
def test_where_the_page_is_torn_what_was_logged_is_shown(described, torn, capsys):
    command(capsys, "run", "mine.py", "--out", "r")
    (described / "r" / "page.json").write_text(torn)
    page = running.page_of(RunFolder.open("r"))
    assert page.score is not None and page.score.value == pytest.approx(1.5**5)
    assert {curve.y_label for curve in page.of(Curve)} == {"return", "loss"}
    command(capsys, "run", "mine.py", "--resume", "r")  # its file is run: the page is its own again
    assert running.page_of(RunFolder.open("r")).kind == "growth: numbers that grow"


def test_seeds_of_a_kind_beside_its_system_are_compared(described, capsys):
    said = command(capsys, "run", "mine.py", "--seeds", 0, 1, "--out", "two")
    assert "largest number" in said
    for seed, last in ((0, 1.5**5), (1, 2 * 1.5**5)):
        page = blocks.read(described / "two" / f"seed-{seed}")
        assert page is not None and page.kind == "growth: numbers that grow"
        assert page.score is not None and page.score.value == pytest.approx(last)
        assert 'href="../compare.html"' in (described / "two" / f"seed-{seed}" / "report.html").read_text("utf-8")


FAULTS = {
    "raises": "return [][0]",
    "returns nothing": "return None",
    "refuses": "raise BadInput('no', where='here')",
    "lacks a file": "return (folder.path / 'nothing.json').read_text()",
}


@pytest.mark.parametrize("body", FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_with_an_account_stands_on_the_plain_page(here, body, capsys):
    words = "from evolvent.core.errors import BadInput\n"
    made = f"def account(folder):\n    {body}\n\n\nKIND = Kind('growth', 'growth: numbers', account)\n"
    (here / "mine.py").write_text(SYSTEM + words + KIND.partition("def account")[0] + made)
    assert "Better than before learning." in command(capsys, "run", "mine.py", "--out", "runs/r")
    page = blocks.read(here / "runs" / "r")
    assert page is not None and {curve.y_label for curve in page.of(Curve)} == {"return", "loss"}
    (warning,) = (text for text in page.of(Text) if text.tone == "bad")
    assert "could not be made" in warning.lines[0]
    assert "return None" in body or "mine.py, line" in warning.lines[0]
    assert warning.lines[0][:30] in (here / "runs" / "r" / "report.html").read_text("utf-8")
    assert re.search(r"\nr  .* 7\.6 \[6\.6, 8\.6\] .* finished ", command(capsys, "runs", "runs", "--plain"))


def test_what_is_no_page_is_not_written_as_one(here, capsys):
    """What is shown when the run ends is what is shown of it later."""
    body = "    return Page('', (Text('words'),), facts=(3,))"
    made = f"def account(folder):\n{body}\n\n\nKIND = Kind('growth', 'x', account)\n"
    (here / "mine.py").write_text(SYSTEM + KIND.partition("def account")[0] + made)
    command(capsys, "run", "mine.py", "--out", "r")
    page, html = blocks.read(here / "r"), (here / "r" / "report.html").read_text("utf-8")
    assert page is not None and running.page_of(RunFolder.open("r")) == page and "<p>w</p>" not in html


def test_numbers_of_blocks_may_be_arrays(here, capsys):
    body = """    y = np.array([row["return"] for row in folder.read_metrics()])
    last = Number("last", y[-1], (y[-1] - 1, y[-1] + 1))
    line = Line("all", np.arange(1, 6), y, y - 1, y + 1)
    return Page("", (Headline((last,)), Curve("All", (line,), "update", "number")), last, steps=np.int64(5))
"""
    words = "import numpy as np\nfrom evolvent.evaluate.blocks import Curve, Line\n"
    text = KIND.partition("def account")[0] + f"def account(folder):\n{body}\n\n\nKIND = Kind('growth', 'x', account)\n"
    (here / "mine.py").write_text(SYSTEM + words + text)
    command(capsys, "run", "mine.py", "--out", "r")
    page = blocks.read(here / "r")
    assert page is not None and page.score is not None and page.score.value == pytest.approx(1.5**5)
    (curve,) = page.of(Curve)
    assert curve.lines[0].x == (1, 2, 3, 4, 5) and curve.lines[0].hi[-1] == pytest.approx(1.5**5 + 1)
    assert "<svg" in (here / "r" / "report.html").read_text("utf-8")


# ------------------------------------------------------------------------------------------------ installed packages
def test_a_kind_of_an_installed_package_makes_the_page_of_systems_that_name_it(here, capsys, monkeypatch):
    bring(here / "site", monkeypatch, {"whatever": "growing_numbers:KIND"}, growing_numbers=KIND)
    assert catalogue.kinds()["growth"].title == "growth: numbers that grow"
    command(capsys, "run", "mine.py", "--out", "runs/r")
    page = blocks.read(here / "runs" / "r")
    assert page is not None and page.kind == "growth: numbers that grow" and len(page.of(Table)) == 1
    (here / "runs" / "r" / "page.json").unlink()  # made again by whoever reads
    assert running.page_of(RunFolder.open("runs/r")) == page
    command(capsys, "runs", "runs", "--plain")
    assert "growth: numbers that grow" in (here / "runs" / "runs.html").read_text("utf-8")


def test_a_run_that_its_kind_cannot_read_is_named_and_the_others_are_listed(here, capsys, monkeypatch):
    text = KIND.replace("    last = ", "    rows[9]\n    last = ")
    bring(here / "site", monkeypatch, {"growth": "growing_badly:KIND"}, growing_badly=text)
    sample_run(here / "runs" / "other", tasks=4)
    with suppress(Exception, SystemExit):
        main(["run", "mine.py", "--out", "runs/r"])
    capsys.readouterr()
    listed = command(capsys, "runs", "runs", "--plain")
    assert re.search(r"\nother +memlift", listed) and re.search(r"\nr ", listed)
    with suppress(SystemExit):
        main(["compare", "runs/r", "runs/other"])
    assert "Traceback" not in capsys.readouterr().err


def test_no_installed_package_takes_the_place_of_a_kind_that_is_here(here, monkeypatch):
    taken = KIND.replace('"growth"', '"memory"')
    assert taken != KIND
    bring(here / "site", monkeypatch, {"memory": "taken_over:KIND"}, taken_over=taken)
    assert catalogue.kinds()["memory"].title.startswith("memory: ")


BAD = {
    "does not run": ("raise RuntimeError('not today')", "bad_kind:KIND"),
    "is not there": ("", "bad_kind:KIND"),
    "no such module": ("", "nowhere_to_be_found:KIND"),
    "is no kind": ("KIND = 3", "bad_kind:KIND"),
    "refuses": (
        "from evolvent.core.errors import EnvError\nraise EnvError('no browser', where='here', do='install')",
        "bad_kind:KIND",
    ),
}


@pytest.mark.parametrize(("text", "where"), BAD.values(), ids=BAD)
def test_a_kind_that_does_not_load_is_no_crash(here, text, where, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "bad_kind", raising=False)
    bring(here / "site", monkeypatch, {"growth": where}, bad_kind=text)
    listed = command(capsys, "list", "algos", "--plain")
    assert "memlift" in listed and "! left out: growth of kinds-of-others: " in listed
    assert "growth" not in catalogue.kinds()
    said = command(capsys, "run", "mine.py", "--out", "r")  # shown as one that nobody describes
    assert "return: 7.6 [6.6, 8.6]" in said and running.page_of(RunFolder.open("r")).kind == "growth"


# ------------------------------------------------------------------------------------------------ earlier versions
OLD = {"memory": sample_run, "language": sample_language_run, "team": sample_team_run, "search": sample_search_run}


def forget(path):
    """The folder as versions wrote it that did not name kinds."""
    manifest = json.loads((path / "config.json").read_text("utf-8"))
    assert manifest.pop("kind")
    (path / "config.json").write_text(json.dumps(manifest), "utf-8")
    (path / "page.json").unlink(missing_ok=True)


@pytest.mark.parametrize("name", OLD)
def test_an_old_folder_opens_by_the_kind_of_its_system(name, tmp_path, capsys):
    path = OLD[name](tmp_path / "runs" / "old")
    want = running.page_of(RunFolder.open(path))
    forget(path)
    assert catalogue.kind_of(RunFolder.open(path)).name == name
    assert running.page_of(RunFolder.open(path)) == want and want.kind == catalogue.kind(name).title
    command(capsys, "runs", tmp_path / "runs", "--plain")
    assert want.kind in (tmp_path / "runs" / "runs.html").read_text("utf-8")


def test_an_old_folder_of_a_system_of_ones_own_opens_without_running_its_file(here, capsys):
    command(capsys, "run", "mine.py", "--out", "runs/r")
    forget(here / "runs" / "r")
    for path in (here / "mine.py", here / "runs" / "r" / "system" / "mine.py"):
        path.write_text("raise AssertionError('run to be read')")
    page = running.page_of(RunFolder.open("runs/r"))
    assert {curve.y_label for curve in page.of(Curve)} == {"return", "loss"}
    assert catalogue.kind_of(RunFolder.open("runs/r")).name == ""
    assert "7.6 [6.6, 8.6]" in command(capsys, "runs", "runs", "--plain")


def test_an_old_folder_of_a_system_that_is_no_longer_there_opens(tmp_path):
    path = sample_run(tmp_path / "old", algo="no_longer_there")
    forget(path)
    page = running.page_of(RunFolder.open(path))
    assert page.score is not None and page.of(Headline) and running.write_report(path).exists()
