"""Words of a run over programs: the lessons it begins with, what is reported of an attempt, and what a gain teaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.evaluate.live import Live, duration, interval
from evolvent.runs.shell import Shell

TEMPLATES = (
    "Write only kernel() and what it calls, in plain C.",
    "Rows lie one behind the other: the value at row r and column c is x[(long)r * cols + c].",
    "Outputs hold no numbers at first: write every one, and begin sums with 0.",
    "Use expf, sqrtf, tanhf and logf for float.",
    "Take the largest value of a row away before exp, so that it does not overflow.",
    "Add up in double where many values are summed.",
    "Write one loop for each step of the numpy code, first to last.",
)
"""What the memory knows of drafting, one line each."""
PRACTICES = (
    "Keep 16 sums in an array and add 16 products to them in each step; add the sums up at the end, with a loop for "
    "what is left over.",
    "Split the loops into blocks of 32 by 32 and treat what is left at the edges apart.",
    'Put this line first: #pragma GCC optimize("fast-math")',
    "Order the loops so that the innermost one walks along memory.",
    "Compute what does not change outside of the inner loop.",
    "Multiply by 1.0f / x instead of dividing by x in a loop.",
    "Unroll the innermost loop by eight by hand.",
    "Write the inner loop with AVX2 intrinsics of immintrin.h.",
    "Use float instead of double.",
    "Write restrict behind the star of every argument: const float* restrict x.",
    "Call __builtin_prefetch for what comes 64 elements later.",
)
"""What it knows of making a kernel faster: good and bad, simple and intricate. Which a model can use is learned."""
_TELLING = ("#pragma", "restrict", "__builtin", "fmaf", "_mm", "const float inv", "const double inv")


def lesson_of(before: str, after: str, most: int = 160) -> str:
    """What made a program faster, in its own lines: those that are new and would carry over; empty where none would."""
    new = [word for word in _TELLING if word not in before]  # a line with one of them is a new line
    telling = [line.strip() for line in after.splitlines() if any(word in line for word in new)]
    text = " and ".join(f"`{line}`" for line in telling[:2])
    return f"Write {text}." if text and len(text) <= most else ""


def outcome(row: Mapping[str, Any], start: float) -> str:
    """An attempt in a few words, for the next one from the same start."""
    if row["gate"]:
        return f"{row['words'][:80]}"
    change = row["ratio"] / start
    return "no gain" if 0.87 < change < 1.15 else f"{change:.2f} times as fast"


def writing(kernel: str, stage: str, attempt: int, shell: Shell) -> str:
    """What goes on while a program is awaited; with how long the run still takes, once an attempt has ended."""
    left = f" · {duration(shell.left)} left" if shell.update > shell.first else ""
    at = f"attempt {shell.update + 1} of {shell.total}{left}"
    return f"{kernel}, {stage} {attempt}: the model writes, then it is compiled, checked and timed · {at}"


def tell(live: Live, row: Mapping[str, Any], total: int) -> None:
    """One line an attempt: the gate it reached, its ratio with interval, and which memory it was written with."""
    ratio = "" if row["low"] is None else f" [{row['low']:.2f}, {row['high']:.2f}]"
    gates = {
        "": "right",
        "text": "no program",
        "hack": "against the rules",
        "compile": "does not compile",
        "correct": "wrong",
        "harness": "not judged",
    }
    said = gates[row["gate"]]
    action = f"{said}: {row['words']}" if row["gate"] else f"right, {row['ratio']:.2f}× naive C{ratio}"
    if not row["gate"] and row["ratio"] > (row["best_before"] or 0.0):
        action += ", the best so far"
    with_ = [f"{m['id']} ({m['value']:+.2f}) {m['body'].splitlines()[0][:70]}" for m in row["advice"]]
    begun = [] if row["start"] is None else [f"from attempt {row['start']}" if row["start"] else "from naive C"]
    live.task(
        row["step"],
        total,
        question=f"{row['kernel']}, {row['phase']} {row['attempt']}",
        action=action,
        ok=(row["gate"] == "") if row["valid"] else None,
        note=" · ".join([*begun, *with_]),
        seconds=row["seconds"],
    )


def report(live: Live, summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """The end of a run: the table, what advice was worth, and the fastest kernel beside the reference."""
    table = [
        [
            k["name"],
            k["attempts"],
            k["first_right_at"],
            k["first"],
            interval(k["best"], k["ci95"], rate=False),
            k["us"] and f"{k['us']:.0f} µs",
        ]
        for k in summary["kernels"]
    ]
    live.table("kernels", ["kernel", "attempts", "right at", "first ×", "best × naive C [95 %]", "a call"], table)
    advice = [
        [a["id"], a["stage"], a["kind"], a["shown"], a["right"], a["gains"], a["value"], a["body"][:60]]
        for a in summary["advice"]
    ]
    if advice:
        columns = ["memory", "stage", "kind", "shown", "right", "gains", "value", ""]
        live.table("what each memory was worth", columns, advice[:12])
    right = [row for row in rows if row["gate"] == "" and row["valid"]]
    if right:
        best = max(right, key=lambda row: row["ratio"])
        live.note(f"\nThe reference for {best['kernel']}:\n\n{summary['references'][best['kernel']]}")
        live.note(f"The fastest, attempt {best['step']}, {best['ratio']:.2f} times as fast:\n\n{best['source']}\n")
