"""What confinement costs: a run in the sandbox against the same program started plainly, turn by turn in one run.

Plain is ``subprocess.run([python, "-I", "-S", "main.py"])`` with its output captured: no limits, nothing confined.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from evolvent.sandbox import Limits, Sandbox
from evolvent.sandbox.mechanisms import candidates, problem

ROUNDS, COLD_ROUNDS, CALLS, AT_ONCE = 40, 8, 2000, 3
PROGRAM = "print(sum(range(1000)))\n"
MODULE = "def add(a, b):\n    return a + b\n"


def run(seed: int = 0) -> dict[str, Any]:
    """``ROUNDS`` runs each, the mechanisms and the plain start taking turns.

    A run in the sandbox passes through four processes, each of which waits for a processor on a busy machine. So the
    ratios are those of the best tenth of the runs, which other work disturbed least; ``median`` has the rest.

    Returns:
        Ratios to the plain start by mechanism, of the best tenth and of the medians: ``cold`` (the first run of a new
        sandbox, its fork server included), ``fresh`` (a place made for the run), ``warm`` (a place made ready before),
        ``at_once`` (wall time of ``AT_ONCE`` runs in flight, against as many plain ones in flight); milliseconds of
        each; and the microseconds of one call of a confined function. The seed changes nothing: there is no chance.
    """
    works = [m.name for m in candidates() if not problem(m, "python")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "main.py"
        path.write_text(PROGRAM)
        words = [sys.executable, "-I", "-S", str(path)]
        kinds: dict[str, Callable[[], Any]] = {"plain": lambda: subprocess.run(words, capture_output=True, check=True)}
        fresh = {name: Sandbox(mechanism=name, warm=0) for name in works}
        warm = {name: Sandbox(mechanism=name, warm=2) for name in works}
        kinds |= {f"fresh {name}": _runner(sandbox) for name, sandbox in fresh.items()}
        kinds |= {f"warm {name}": _runner(sandbox) for name, sandbox in warm.items()}
        times = _times(kinds, ROUNDS, pause_s=0.03)
        times |= _times({f"cold {name}": _cold(name) for name in works}, COLD_ROUNDS)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            many = {f"at_once {name}": _many(pool, kinds[name]) for name in ("plain", *(f"warm {w}" for w in works))}
            times |= _times(many, ROUNDS // 4)
        calls = {name: _call_us(sandbox) for name, sandbox in fresh.items()}
        for sandbox in (*fresh.values(), *warm.values()):
            sandbox.close()
    best = {name: 1e3 * sorted(values)[len(values) // 10] for name, values in times.items()}
    median = {name: 1e3 * statistics.median(values) for name, values in times.items()}
    return {
        "name": "sandbox",
        "seed": seed,
        "rounds": ROUNDS,
        "load": os.getloadavg()[0],
        "ratios": _ratios(best),
        "median_ratios": _ratios(median),
        "milliseconds": best,
        "median_milliseconds": median,
        "call_us": calls,
    }


def _ratios(ms: dict[str, float]) -> dict[str, float]:
    """To the plain start; of runs at once to plain ones at once."""
    many = {f"at_once {n[13:]}": v / ms["at_once plain"] for n, v in ms.items() if n.startswith("at_once warm ")}
    return {n: v / ms["plain"] for n, v in ms.items() if not n.startswith(("plain", "at_once"))} | many


def _runner(sandbox: Sandbox) -> Callable[[], Any]:
    def one() -> None:
        result = sandbox.run({"main.py": PROGRAM}, ["python", "main.py"])
        if result.stdout != "499500\n":
            raise RuntimeError(f"the sandbox gave {result}")

    return one


def _cold(name: str) -> Callable[[], Any]:
    def one() -> None:
        with Sandbox(mechanism=name, warm=0) as sandbox:
            _runner(sandbox)()

    return one


def _many(pool: ThreadPoolExecutor, one: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: list(pool.map(lambda _: one(), range(AT_ONCE)))


def _times(kinds: dict[str, Callable[[], Any]], rounds: int, pause_s: float = 0.0) -> dict[str, list[float]]:
    """Seconds by kind; a pause before each, in which a warm place is made ready."""
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for one in kinds.values():
        one()
    for _ in range(rounds):
        for name, one in kinds.items():
            time.sleep(pause_s)
            started = time.perf_counter()
            one()
            times[name].append(time.perf_counter() - started)
    return times


def _call_us(sandbox: Sandbox) -> float:
    with sandbox.open({"solution.py": MODULE}, "solution", Limits(cpu=60.0)) as guest:
        started = time.perf_counter()
        for i in range(CALLS):
            guest.call("add", i, 1)
        return 1e6 * (time.perf_counter() - started) / CALLS
