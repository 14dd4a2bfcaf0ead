"""What lift says in words is what its numbers say: generated logs of every verdict, and what rounds to nothing."""

import re
from dataclasses import replace

import numpy as np
import pytest

from evolvent.cli.memory.lift import page_of
from evolvent.memory import effect_report
from evolvent.memory.effects import Asked, Log, Told


def log_of(n, *, rate=0.5, base=0.5, lift=0.0, told=(1.0, 1.0), tasks=10**9, seed=0):
    """Recalls of which chance held out ``rate``; ``told``: how often an outcome comes with the memory and without."""
    rng, asked = np.random.default_rng(seed), []
    for i in range(n):
        held = rate > 0.0 and rng.random() < rate
        reward = float(rng.random() < base + lift * (not held))
        outcome = Told(i, reward, 1.0, 1.0 + i) if rng.random() < told[held] else None
        asked.append(Asked(i, float(i), "solve", f"a{i}", f"t{i % tasks}", rate, held, False, outcome))
    return Log(asked, {"frozen": 0, "repeated_seed": 0, "certain": 0 if rate else n})


def said(log, margin=0.05):
    """The numbers of a log, and the sentences about them."""
    asked = effect_report._Asked(None, None, "success", 0.0, 0.05, margin, 0.1)
    data = effect_report._overall(asked, log)
    return data, [*effect_report._overall_words(data, margin), *effect_report._telling_words(data)]


CELLS = {
    "helps": {"n": 200, "base": 0.2, "lift": 0.5},
    "helps, a fifth held out": {"n": 300, "rate": 0.2, "base": 0.3, "lift": 0.5},
    "helps hardly": {"n": 9000, "base": 0.5, "lift": 0.03},
    "harms": {"n": 300, "base": 0.9, "lift": -0.5},
    "nothing": {"n": 9000, "base": 0.05},
    "open": {"n": 150},
    "few": {"n": 12, "rate": 0.2},
    "few tasks": {"n": 200, "tasks": 3, "lift": 0.4},
    "one task": {"n": 200, "tasks": 1, "lift": 0.4},
    "told more with it": {"n": 400, "told": (0.9, 0.4)},
    "told less with it": {"n": 400, "told": (0.4, 0.9)},
    "untold": {"n": 30, "told": (0.0, 0.0)},
    "never held out": {"n": 30, "rate": 0.0},
    "nothing asked": {"n": 0},
}
FIRST = {
    "helps": "Your memory helps",
    "harms": "Your memory harms",
    "no difference": "No difference: within 5 points",
    "too early": "No difference found yet",
}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("seed", range(3))
def test_every_sentence_is_in_the_numbers(cell, seed):
    d, lines = said(log_of(**CELLS[cell], seed=seed))
    text, n = " ".join(lines), d["with"]["n"] + d["without"]["n"]
    if d["lo"] is None:
        assert (
            d["verdict"] == "too early" and d["lift"] is None and d["why"] in text.replace("No outcome", "no outcome")
        )
        assert "Measuring" not in text and "points" not in text
    else:
        assert lines[0].startswith(FIRST[d["verdict"]]) and d["why"] is None
        lo, hi = map(number, re.search(r"\[(.*?), (.*?)\]", lines[0]).groups())
        assert abs(lo - 100 * d["lo"]) <= 0.5 and abs(hi - 100 * d["hi"]) <= 0.5
        assert (lo > 0, hi < 0) == (d["verdict"] == "helps", d["verdict"] == "harms"), "which side of zero is seen"
        assert f"{n:,} outcomes of {d['tasks']:,} task" in lines[0]
        found = re.match(r"Mean with it (\d+)% \(([\d,]+)\), without it (\d+)% \(([\d,]+)\)", lines[1])
        assert [round(100 * d[arm]["mean"]) for arm in ("with", "without")] == [int(found[1]), int(found[3])]
        assert [f"{d[arm]['n']:,}" for arm in ("with", "without")] == [found[2], found[4]]
        assert ("by less than" in lines[0]) == (d["verdict"] == "helps" and d["hi"] <= 0.05)
        assert ("more outcomes" in lines[0]) == (d["verdict"] == "too early" and d["more"] is not None)
        assert ("only" in lines[0]) == (d["tasks"] < 10)
        assert ("Measuring costs" in text, "Measuring saves" in text) == (lo > 0, hi < 0)
    assert ("Outcomes are told" in text) == d["told"]["differs"]
    if "told more" in cell or "told less" in cell:
        assert f"told {cell.split()[1]} often" in text
    page_of({**d, "words": text}, "agent.db")


def number(text):
    """A number of points; what is just above or below nothing as a little."""
    return {"just above 0": 1e-6, "just below 0": -1e-6}.get(text) or float(text)


def test_a_lift_that_grew_while_less_was_held_out_is_said_to_be_mostly_of_the_beginning():
    early, late = log_of(600, rate=0.2, base=0.1, lift=0.1), log_of(2000, rate=0.02, base=0.1, lift=0.6, seed=1)
    moved = [one._replace(at=one.at + 600.0) if one else one for one in (row.told for row in late.asked)]
    later = [
        replace(row, number=row.number + 600, attempt=f"b{i}", at=row.at + 600.0, told=told)
        for i, (row, told) in enumerate(zip(late.asked, moved, strict=True))
    ]
    d, lines = said(Log([*early.asked, *later], early.not_counted))
    plain = np.mean([row.told.outcome for row in [*early.asked, *later] if not row.held_out])
    assert plain - d["with"]["mean"] > 0.15, "the figure that is said is far from what the caller counts"
    assert d["with"]["unweighted"] == pytest.approx(plain)
    assert f"counts 8 times one at 2%, as now; the plain mean with it is {plain:.0%}" in lines[2]
    assert "Weighted" not in " ".join(said(log_of(600, rate=0.2, lift=0.3))[1]), "one share: it is the plain mean"


def test_all_verdicts_were_among_them():
    verdicts = {said(log_of(**cell))[0]["verdict"] for cell in CELLS.values()}
    assert verdicts == set(FIRST)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.254, "+25"),
        (-0.005, "-1"),
        (0.0149, "+1"),
        (0.0031, "+0.3"),
        (-0.0031, "-0.3"),
        (0.0001, "just above 0"),
        (-1e-7, "just below 0"),
        (0.0, "0"),
        (1.0, "+100"),
    ],
)
def test_what_would_round_to_nothing_says_its_side(share, text):
    assert effect_report.points(share) == text
