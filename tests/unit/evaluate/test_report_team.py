"""Reports and comparisons of team runs: complete, honest about what they average, and no text in them is code."""
# pyright: reportOptionalOperand=false, reportOptionalSubscript=false, reportOperatorIssue=false

import io
import json
import re
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from test_report import NASTY, Page

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate import curves as lines_of
from evolvent.evaluate.blocks import Curve, Line
from evolvent.evaluate.compare import compare, load, show
from evolvent.evaluate.live import Live, flow
from evolvent.evaluate.pages import png
from evolvent.evaluate.pages.compare_page import write_html
from evolvent.evaluate.pages.svg import curves, step_ticks
from evolvent.formulas.statistics import iqm
from evolvent.running import page_of, write_report
from evolvent.runs.account.updates import smoothed, thinned, updates, window
from evolvent.runs.team.account import shares
from sample_team_run import sample_team_run


def words(folder):
    return Page(write_report(folder).read_text(encoding="utf-8")).words


# ------------------------------------------------------------------------------------------------ the page
def test_every_part_is_there(tmp_path):
    folder = sample_team_run(tmp_path / "r")
    (folder / "behaviour.png").write_bytes(png.encode(np.zeros((4, 6, 3), np.uint8)))
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    for part in (
        "What mat learned on spread:n=3",
        "3 agents",
        "96,000 environment steps",
        "60 updates",
        "return, greedy, 95 % interval",
        "return, actions sampled",
        "return, random actions",
        "Return of an attempt",
        "Success",
        "Attempts before and after",
        "Who earned the advantage",
        "agent0",
        "Learning in numbers",
        "policy loss",
        "entropy",
        "What the environment tells",
        "covered",
        "Where the time goes",
        "environment steps a second",
        "Evaluations",
        "Every field",
        "evolvent run mat --seed 0",
    ):
        assert part in page.words, part
    assert "success mean" not in page.words and "steps per s" not in page.words
    assert page.links[0].startswith("data:image/png;base64,") and len(page.links) == 1 and "../" in page.ways
    assert "script" not in page.tags


@pytest.mark.parametrize("name", ["factor_mean", "ratio_mean", "kl_mean"])
def test_a_mean_that_updates_alone_have_is_the_learners(tmp_path, name):
    rows = RunFolder.open(sample_team_run(tmp_path / "r")).read_metrics()
    rows = [row | {name: 1.0} if "update" in row else row for row in rows]
    for some in (rows, [row for row in rows if row.get("phase") != "eval"]):
        run = updates(some)
        assert run.reported() == ["success_mean", "covered_mean"] and name in run.learned()


def test_the_numbers_are_those_of_the_folder(tmp_path):
    folder = sample_team_run(tmp_path / "r", agents=4)
    rows = [row for row in RunFolder.open(folder).read_metrics() if "update" in row]
    said = words(folder)
    earned = np.mean([row["credit"] for row in rows], axis=0)
    assert f"agent0 {100 * earned[0]:.1f} %" in said and "Equal shares would be 25.0 %" in said
    learn = sum(row["learn_s"] for row in rows)
    whole = sum(row[f"{part}_s"] for row in rows for part in ("act", "step", "credit", "learn"))
    assert f"learn {100 * learn / whole:.0f} %" in said


def test_names_of_agents_are_never_markup(tmp_path):
    html = write_report(sample_team_run(tmp_path / "r", agents=8, name="{}" + NASTY)).read_text(encoding="utf-8")
    page = Page(html)
    assert "script" not in page.tags and "img" not in page.tags and "<script>alert(1)</script>" in page.words


@pytest.mark.parametrize("updates", [0, 1, 3])
def test_a_run_that_has_only_begun_has_a_report_too(tmp_path, updates):
    said = words(sample_team_run(tmp_path / "r", updates=updates, summary=False))
    assert "has not ended" in said and "return, random actions" in said


def test_attempts_that_never_end_and_numbers_that_are_missing_leave_gaps(tmp_path):
    folder = sample_team_run(tmp_path / "r", updates=12, summary=False)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    gone = [{**row, "return": None, "credit": [0.0, 0.0, 0.0], "success_mean": None} for row in lines]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gone))
    assert "Who earned the advantage" not in words(folder)


# ------------------------------------------------------------------------------------------------ columns
def test_a_resumed_run_that_says_a_line_twice_counts_it_once():
    rows = [{"step": 10, "update": 1, "return": 1.0}, {"step": 10, "phase": "eval", "value": 1.0}] * 2
    run = updates(rows)
    assert len(run.updates) == len(run.evaluations) == 1


def test_smoothing_keeps_a_straight_line_where_it_is():
    line = [2.0 * i - 3 for i in range(41)]
    np.testing.assert_allclose(smoothed(line, 9), line, atol=1e-12)
    spike = smoothed([0.0] * 5 + [9.0] + [0.0] * 5, 3)
    np.testing.assert_allclose(spike, [0] * 4 + [3.0] * 3 + [0] * 4, atol=1e-12)


def test_thinning_keeps_the_mean():
    x, y = list(range(1000)), np.random.default_rng(0).normal(size=1000).tolist()
    few_x, few_y, k = thinned(x, y, 100)
    assert k == 10 and len(few_x) == 100 and np.mean(few_y) == pytest.approx(np.mean(y))


def test_shares_of_credit_sum_to_one_whatever_the_size_of_the_advantages(tmp_path):
    run = updates(RunFolder.open(sample_team_run(tmp_path / "r", agents=3)).read_metrics())
    total, steps, over = shares(run, ["a", "b", "c"], 7)
    assert sum(total.values()) == pytest.approx(1, abs=1e-3) and len(steps) == 7 == len(over["a"])
    assert over["a"][-1] > over["a"][0] and total["a"] > total["b"]
    assert shares(run, ["a", "b"], 7) == ({}, [], {})


def test_progress_says_the_most_important_first_and_stays_inside():
    facts = ["update 1/9", "return -1.2", "4 min left", "1,234 steps/s", "act 1 step 2 credit 3 learn 94 %"]
    for width in (30, 40, 60, 120):
        lines = flow(facts, width, 16)
        assert lines[0].startswith("update 1/9") and len(lines) <= 3
        assert len(lines[0]) <= width - 16 and all(len(line) <= width - 2 for line in lines[1:] if " · " in line)
    assert " · ".join(flow(facts, 200, 16)) == " · ".join(facts)


def test_progress_on_a_terminal_and_in_a_file():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, mark in ((Terminal(), "━"), (io.StringIO(), "… 50 %")):
        with Live(stream=stream) as live:
            live.progress(0.5, ["update 1/2\x1b[2J", "return 1"])
            live.status("evaluating")
            live.progress(1.0, ["update 2/2"])
        assert mark in stream.getvalue() and "update 2/2" in stream.getvalue() and "\x1b[2J" not in stream.getvalue()


# ------------------------------------------------------------------------------------------------ pictures
def test_levels_and_points_stay_inside_their_picture():
    x = tuple(float(i) for i in range(50))
    lines = [Line("raw", x, x, mark="points"), Line("mean", x, x, mark="line")]
    svg = curves(
        [*lines, Line("chance", (0.0,), (-30.0,), (-40.0,), (-20.0,), 1, "level")],
        ticks=step_ticks(49),
        x_label="x",
        y_label="y",
        rates=False,
        size=(300, 170),
    )
    Page(svg)
    numbers = [float(v) for v in re.findall(r'\b(?:cy|y1|y2|y)="(-?[\d.]+)"', svg)]
    assert numbers and all(0 <= v <= 170 for v in numbers)


@pytest.mark.parametrize("last", [1, 999, 25_600, 2_000_000, 3e9])
def test_ticks_are_round_and_few(last):
    ticks = step_ticks(last)
    assert 2 <= len(ticks) <= 7 and ticks[0][1] == "0" and all(0 <= x <= last * 1.001 for x, _ in ticks)


def decoded(data):
    width, height = struct.unpack(">II", data[16:24])
    body = zlib.decompress(data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8])
    rows = np.frombuffer(body, np.uint8).reshape(height, 1 + 3 * width)
    assert len(set(rows[:, 0].tolist())) == 1
    pixels = rows[:, 1:].reshape(height, width, 3)
    return pixels if rows[0, 0] == 0 else np.cumsum(pixels, axis=1, dtype=np.uint8)


@pytest.mark.parametrize("smooth", [True, False])
def test_a_png_holds_the_picture(smooth):
    rng = np.random.default_rng(0)
    ramp = np.add.outer(np.arange(20), np.arange(30)).astype(np.uint8)
    picture = np.stack([ramp] * 3, 2) if smooth else rng.integers(0, 256, (20, 30, 3)).astype(np.uint8)
    np.testing.assert_array_equal(decoded(png.encode(picture)), picture)


def test_a_sheet_shows_every_frame_smaller_and_in_order():
    frames = [np.full((352, 176, 3), 20 * i, np.uint8) for i in range(6)]
    assert not png.bright(png.encode(frames[0]))
    white = np.full((40, 60, 3), 250, np.uint8)
    white[:10, :, 1:] = np.arange(60, dtype=np.uint8)[None, :, None]
    assert png.bright(png.encode(white)) and not png.bright(b"GIF89a" + bytes(40))
    sheet = png.sheet(frames, columns=4, side=176, gap=2)
    assert sheet.shape == (2 * 176 + 2, 4 * 88 + 3 * 2, 3)
    assert sheet[0, 0, 0] == 0 and sheet[0, 90, 0] == 20 and sheet[-1, 0, 0] == 80
    with pytest.raises(BadInput):
        png.encode(np.zeros((3, 3), np.uint8))


# ------------------------------------------------------------------------------------------------ comparison
@pytest.fixture(scope="module")
def arms(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        sample_team_run(root / "ippo" / f"seed-{seed}", algo="ippo", seed=seed, skill=4, updates=40)
        sample_team_run(root / "mat" / f"seed-{seed}", seed=seed, skill=12)
    return load([root / "ippo", root / "mat"], page_of)


def judged(arm):
    """Of each run of an arm, its evaluations as it logged them."""
    rows = [RunFolder.open(folder).read_metrics() for folder in arm.folders]
    return [[row for row in lines if row.get("phase") == "eval"] for lines in rows]


def test_curves_are_interquartile_means_over_seeds_at_the_evaluations(arms):
    line = lines_of.together(arms[1].pages, "mat", 0, lines_of.role_of([arm.pages for arm in arms]))
    assert list(line.x) == [16_000, 32_000, 48_000, 64_000, 80_000, 96_000]
    values = [rows[2]["value"] for rows in judged(arms[1])]
    assert line.y[2] == pytest.approx(float(iqm(values))) and line.lo[2] < line.y[2] < line.hi[2]
    assert line.y[-1] == pytest.approx(compare(arms)[1].iqm), "the curve ends where the table is"


def test_runs_of_different_lengths_are_also_compared_where_all_of_them_were(arms):
    standings = compare(arms)
    out = io.StringIO()
    show(standings, Live(True, stream=out))
    said = out.getvalue()
    assert "IQM at 64k steps" in said and "not equally long" in said and "Student's t" in said
    at = iqm([rows[3]["value"] for rows in judged(arms[1])])
    assert f"{float(at):.4g}" in said and standings[1].better[0] == 1.0
    assert "McNemar" not in said


def test_one_seed_says_that_its_interval_is_over_attempts(tmp_path):
    (arm,) = load([sample_team_run(tmp_path / "r")], page_of)
    (standing,) = compare([arm])
    assert standing.interval_over == "attempts" and standing.ci95 == tuple(judged(arm)[0][-1]["ci95"])


def test_teams_on_other_environments_have_a_table_and_a_picture_of_their_own(arms, tmp_path):
    (other,) = load([sample_team_run(tmp_path / "r", agents=5)], page_of)
    html = write_html(compare([*arms, other]), tmp_path / "c.html").read_text()
    page = Page(html)
    assert page.tags.count("table") == 2 and "Return of an attempt, spread:n=5" in page.words


def seldom(page):
    """The same page with no evaluation but the last one."""
    blocks = [
        replace(block, lines=tuple(_last(line) if line.role == "judged" else line for line in block.lines))
        if isinstance(block, Curve)
        else block
        for block in page.blocks
    ]
    return replace(page, blocks=tuple(blocks))


def _last(line):
    return replace(line, **{name: getattr(line, name)[-1:] for name in ("x", "y", "lo", "hi")})


def test_runs_that_were_hardly_evaluated_are_drawn_by_the_attempts_they_learned_from(arms, tmp_path):
    few = [replace(arm, pages=tuple(seldom(page) for page in arm.pages)) for arm in arms]
    roles = [lines_of.role_of([arm.pages for arm in some]) for some in (few, arms)]
    assert roles == ["learned", "judged"]
    line = lines_of.together(few[0].pages, "ippo", 0, "learned")
    rows = [RunFolder.open(folder).read_metrics() for folder in arms[0].folders]
    found = [[u["return"] for u in updates(lines).updates if u["return"] is not None] for lines in rows]
    assert 40 >= len(line.x) > 6 and line.x[-1] == updates(rows[0]).updates[-1]["step"]
    at = [smoothed(returns, window(len(returns)))[0] for returns in found]
    assert line.y[0] == pytest.approx(float(iqm(at))) and line.lo[0] < line.hi[0]
    html = write_html(compare(few), tmp_path / "c.html").read_text()
    assert "Return of an attempt, on what it learned from, spread:n=3" in Page(html).words


def test_a_returns_interval_is_never_called_a_rate(tmp_path):
    folder = sample_team_run(tmp_path / "r", skill=20.4)
    assert 0 < RunFolder.open(folder).summary()["score"]["value"] < 1
    html = write_html(compare(load([folder], page_of)), tmp_path / "c.html").read_text()
    assert " %</text>" not in html
