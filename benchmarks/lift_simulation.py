"""What measured lift promises, in stores whose truth is known, looked at after every outcome.

    python benchmarks/lift_simulation.py [--stores 1000] [--outcomes 2000]     # some minutes on one core

It writes ``results/lift_simulation.json`` and the table of ``docs/lift.md``. All stores of a cell are computed at once:
every quantity is a cumulative sum over outcomes; ``check`` compares them with ``formulas.effect`` on some stores.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evolvent.formulas.effect import ETA, LEAST, Row, estimate, information_needed

ROOT = Path(__file__).parent.parent
OUT = ROOT / "benchmarks" / "results" / "lift_simulation.json"
PAGE = ROOT / "docs" / "lift.md"
MARK = r"(<!-- {}: begin[^\n]*-->\n).*?(<!-- {}: end -->)"
ALPHA, MARGIN, LEVEL = 0.05, 0.05, 0.1
BASES, LIFTS, RATES = (0.05, 0.2, 0.5, 0.9), (-0.3, -0.1, 0.0, 0.1, 0.2, 0.3), (0.05, 0.1, 0.2)


class Looks(NamedTuple):
    """Of every store (S) at every look (T): the estimate, its interval, its evidence, and whether it speaks."""

    lift: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    e_help: np.ndarray
    e_harm: np.ndarray
    speaks: np.ndarray

    @property
    def helps(self) -> np.ndarray:
        return self.speaks & (self.lo > 0.0)

    @property
    def harms(self) -> np.ndarray:
        return self.speaks & (self.hi < 0.0)

    @property
    def same(self) -> np.ndarray:
        return self.speaks & (self.lo >= -MARGIN) & (self.hi <= MARGIN)


def looks(with_ST: np.ndarray, p_ST: np.ndarray, y_ST: np.ndarray) -> Looks:
    """The estimate after each outcome; every outcome is of a task of its own."""
    information = np.cumsum(p_ST * (1.0 - p_ST), axis=1)
    mean, v_rows, v_tasks, counts = [], 0.0, 0.0, []
    with np.errstate(divide="ignore", invalid="ignore"):
        n_all = np.arange(1, y_ST.shape[1] + 1)
        for arm, other in ((~with_ST, p_ST), (with_ST, 1.0 - p_ST)):
            k = np.where(arm, other, 0.0)
            d, n = np.cumsum(k, axis=1), np.cumsum(arm, axis=1)
            m = np.cumsum(k * y_ST, axis=1) / d
            squares = np.cumsum(k * k * y_ST * y_ST, axis=1) - 2.0 * m * np.cumsum(k * k * y_ST, axis=1)
            squares = np.maximum(0.0, squares + m * m * np.cumsum(k * k, axis=1)) * (information / d) ** 2
            v_rows = v_rows + squares * np.where(n > 1, n / np.maximum(n - 1, 1), 2.0)
            v_tasks = v_tasks + squares
            mean.append(m)
            counts.append(n)
        v = np.maximum(v_rows, v_tasks * n_all / np.maximum(n_all - 1, 1))
        u, lift = v + ETA, mean[1] - mean[0]
        half = np.sqrt(u * np.log(u / (ETA * ALPHA * ALPHA))) / information
        total = lift * information
        e_help, e_harm = (_evidence(sign * total, u) for sign in (1.0, -1.0))
    speaks = np.minimum(*counts) >= LEAST
    return Looks(lift, np.maximum(-1.0, lift - half), np.minimum(1.0, lift + half), e_help, e_harm, speaks)


def _evidence(total: np.ndarray, u: np.ndarray) -> np.ndarray:
    """E-values, by the error function of Abramowitz and Stegun 7.1.26."""
    z = total / np.sqrt(2.0 * u)
    a = np.abs(z)
    t = 1.0 / (1.0 + 0.3275911 * a)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    scaled = np.where(z < 0.0, poly, 2.0 * np.exp(np.minimum(a * a, 700.0)) - poly)
    return np.sqrt(ETA / u) * scaled


def check(with_ST: np.ndarray, p_ST: np.ndarray, y_ST: np.ndarray) -> None:
    """``looks`` gives what the library gives, on the first stores."""
    found = looks(with_ST, p_ST, y_ST)
    for s in range(3):
        for t in (40, y_ST.shape[1] - 1):
            some = (with_ST[s, : t + 1], p_ST[s, : t + 1], y_ST[s, : t + 1])
            e = estimate(
                Row(bool(a), float(p), float(y), 1.0, i) for i, (a, p, y) in enumerate(zip(*some, strict=True))
            )
            assert e.lift is not None and e.lo is not None and e.hi is not None, (s, t)
            got = (found.lift[s, t], found.lo[s, t], found.hi[s, t])
            np.testing.assert_allclose(got, (e.lift, e.lo, e.hi), rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose((found.e_help[s, t], found.e_harm[s, t]), (e.e_help, e.e_harm), rtol=1e-3)


def planted(
    rng: np.random.Generator, shape: tuple[int, int], rate: float, base: float, lift: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stores in which ``rate`` of the attempts get nothing, which succeed with probability ``base``."""
    with_ST = rng.random(shape) >= rate
    return with_ST, np.full(shape, 1.0 - rate), (rng.random(shape) < base + lift * with_ST).astype(np.float64)


def ever(said_ST: np.ndarray) -> float:
    """Share of stores in which something is said at some look."""
    return float(said_ST.any(axis=1).mean())


def constant(stores: int, outcomes: int) -> list[dict[str, Any]]:
    """Coverage at every look, and what is read, under a constant share."""
    cells = []
    for number, (base, lift, rate) in enumerate((b, x, r) for b in BASES for x in LIFTS for r in RATES):
        if not 0.0 <= base + lift <= 1.0:
            continue
        drawn = planted(np.random.default_rng([1, number]), (stores, outcomes), rate, base, lift)
        if not cells:
            check(*drawn)
        found = looks(*drawn)
        missed = found.speaks & ((found.lo > lift) | (found.hi < lift))
        row = {"base": base, "lift": lift, "rate": rate, "missed": ever(missed)}
        cells.append(row | {"helps": ever(found.helps), "harms": ever(found.harms)})
    return cells


def null(stores: int, outcomes: int) -> dict[str, Any]:
    """A memory without any effect, a fifth held out: what is read of it."""
    found = looks(*planted(np.random.default_rng(2), (stores, outcomes), 0.2, 0.5, 0.0))
    row = {"outcomes": outcomes, "helps": ever(found.helps), "harms": ever(found.harms)}
    return row | {"no difference": float(found.same[:, -1].mean()), "no difference, ever": ever(found.same)}


def falling(stores: int, outcomes: int, lift: float, base: float) -> dict[str, Any]:
    """A fifth held out until the verdict, then 2 %: the rate depends on what was told before."""
    rng = np.random.default_rng([3, int(1000 * lift) + 1000])
    luck = rng.random((stores, outcomes))
    with_, p = np.zeros((stores, outcomes), bool), np.full((stores, outcomes), 0.8)
    y, decided, first = np.zeros((stores, outcomes)), np.zeros(stores, bool), np.full(stores, outcomes)
    for start in range(0, outcomes, 20):
        piece = slice(start, start + 20)
        p[:, piece] = np.where(decided, 0.98, 0.8)[:, None]
        with_[:, piece] = rng.random((stores, 20)) < p[:, piece]
        y[:, piece] = luck[:, piece] < base + lift * with_[:, piece]
        if not decided.all() and (start + 20) % 100 == 0:  # a look costs what all outcomes cost
            seen = looks(with_[:, : start + 20], p[:, : start + 20], y[:, : start + 20])
            now = (seen.helps | seen.harms | seen.same)[:, -1]
            first = np.where(now & ~decided, start + 20, first)
            decided |= now
    found = looks(with_, p, y)
    missed = found.speaks & ((found.lo > lift) | (found.hi < lift))
    return {
        "lift": lift,
        "base": base,
        "missed": ever(missed),
        "decided": float(decided.mean()),
        "median outcomes until then": float(np.median(first)),
        "held out": float((~with_).sum(axis=1).mean()),
    }


def names(stores: int, outcomes: int) -> dict[str, Any]:
    """Sixty notes, five that harm and five that help by .3, each left out less and less: who is named wrongly."""
    effects = np.array([-0.3] * 5 + [0.3] * 5 + [0.0] * 50)
    worst = {"e-BH": [], "each alone": []}
    for store in range(stores):
        rng = np.random.default_rng([4, store])
        shape, left = (60, outcomes), np.zeros(60)
        with_, p = np.zeros(shape, bool), np.zeros(shape)
        for t in range(outcomes):
            p[:, t] = 1.0 - 0.2 * 20.0 / (20.0 + left)
            with_[:, t] = rng.random(60) < p[:, t]
            left += ~with_[:, t]
        y = (rng.random(shape) < 0.5 + effects[:, None] * with_).astype(np.float64)
        found = looks(with_, p, y)
        e = np.where(found.speaks, found.e_harm, 1.0)[:, 19::20]
        order = -np.sort(-e, axis=0)
        enough = order >= 60.0 / (LEVEL * np.arange(1, 61))[:, None]
        r = np.where(enough.any(axis=0), 60 - np.argmax(enough[::-1], axis=0), 0)
        least = np.where(r > 0, np.take_along_axis(order, np.maximum(r - 1, 0)[None], axis=0)[0], np.inf)
        for name, said in (("e-BH", e >= least), ("each alone", e >= 1.0 / ALPHA)):
            wrong = (said & (effects >= 0.0)[:, None]).sum(axis=0) / np.maximum(said.sum(axis=0), 1)
            worst[name].append(float(wrong.max()))
    return {"stores": stores} | {f"wrong, {name}": float(np.mean(shares)) for name, shares in worst.items()}


# ---------------------------------------------------------------------------------------------------- the page
def table(data: dict[str, Any]) -> str:
    """What stands in ``docs/lift.md``."""
    cells = data["constant"]
    nulls = [c for c in cells if c["lift"] == 0.0]

    def found(lift: float, rate: float) -> str:
        return " to ".join(
            f"{x:.2f}" for x in _ends([c["helps"] for c in cells if (c["lift"], c["rate"]) == (lift, rate)])
        )

    missed, named = [c["missed"] for c in cells], data["names"]
    fell = data["falling"]
    rows = [
        ("the interval missed the truth at some look, worst cell (mean)", f"{max(missed):.3f} ({np.mean(missed):.3f})"),
        ("no effect, read as helping, worst cell", f"{max(c['helps'] for c in nulls):.3f}"),
        ("no effect, read as harming, worst cell", f"{max(c['harms'] for c in nulls):.3f}"),
        *((f"+20 points found, {rate:.0%} held out", found(0.2, rate)) for rate in RATES),
        *((f"+10 points found, {rate:.0%} held out", found(0.1, rate)) for rate in RATES),
        (f'no effect, {data["null"]["outcomes"]:,} outcomes: "no difference"', f"{data['null']['no difference']:.3f}"),
        *(
            (
                f"`True`, lift {row['lift']:+.2f}: missed; decided; outcomes until then (median)",
                f"{row['missed']:.3f}; {row['decided']:.2f}; {row['median outcomes until then']:.0f}",
            )
            for row in fell
        ),
        ("of notes named as harming, wrong at the worst look (each alone at .05)", _wrong(named)),
    ]
    return "| planted | measured |\n|---|---|\n" + "".join(f"| {what} | {said} |\n" for what, said in rows)


def _ends(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def _wrong(named: dict[str, Any]) -> str:
    return f"{named['wrong, e-BH']:.3f} ({named['wrong, each alone']:.3f})"


def needed() -> str:
    """Outcomes in all until an interval is so wide, near 50 % success: arithmetic, nothing drawn."""
    widths = (0.05, 0.1, 0.2)
    lines = ["| held out | " + " | ".join(f"±{100 * w:.0f} points" for w in widths) + " |", "|---|---|---|---|"]
    for rate in (0.05, 0.1, 0.2, 0.5):
        totals = (information_needed(0.25, w) / (rate * (1.0 - rate)) for w in widths)
        lines.append(f"| {rate:.0%} | " + " | ".join(f"{float(f'{x:.3g}'):,.0f}" for x in totals) + " |")
    return "\n".join(lines) + "\n"


def filled(page: str, data: dict[str, Any]) -> str:
    """The page with its tables."""
    for name, content in (("simulation", table(data)), ("needed", needed())):
        page = re.sub(MARK.format(name, name), rf"\g<1>{content}\g<2>", page, flags=re.DOTALL)
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", type=int, default=1000)
    parser.add_argument("--outcomes", type=int, default=2000)
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    data = {
        "command": f"python benchmarks/lift_simulation.py {' '.join(sys.argv[1:])}".strip(),
        "commit": commit.stdout.strip(),
        "seeds": "numpy default_rng of [part, cell or store]",
        "stores": options.stores,
        "outcomes": options.outcomes,
        "constant": constant(options.stores, options.outcomes),
        "null": null(min(100, options.stores), 30_000),
        "falling": [falling(options.stores, 2 * options.outcomes, lift, 0.5) for lift in (0.15, -0.15)],
        "names": names(min(100, options.stores), 1000),
    }
    OUT.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text("utf-8"), data), encoding="utf-8")


if __name__ == "__main__":
    main()
