"""A dispatcher judged on named problems, beside dispatch rules, random schedules and CP-SAT, every schedule checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from evolvent.core.folder import RunFolder
from evolvent.core.seeding import rng
from evolvent.envs.team.jssp import JobShop
from evolvent.evaluate.blocks import Block, Page, Spans, Table, Text, write
from evolvent.evaluate.live import Live
from evolvent.formulas.job_shop import RULES, Instance, dispatched, drawn, makespan
from evolvent.learn.team.player import TeamPlayer
from evolvent.learn.team.views import Views
from evolvent.models.team.actors import Actors
from evolvent.runs.team.account import TESTS
from evolvent.runs.team.actors import acting

LEARNED, DRAWN, RANDOM, CP_SAT = "learned", "32 drawn", "200 random", "CP-SAT"
_LEAST_S = 0.05


def judge(
    make: Callable[[Views], Actors], actors: Actors, tests: tuple[Instance, ...], folder: RunFolder, live: Live
) -> dict[str, Any]:
    """Makespans of the dispatcher and of what it is compared with; a table, and a page for the run's own.

    ``make`` makes the dispatcher for shops of another size. Returns what goes into the summary: ``tests``, by problem
    and by what made the schedule; ``gaps``, the mean excess over the best makespan that is known.
    """
    rows: dict[str, dict[str, Any]] = {}
    drawings: list[Block] = []
    for instance in tests:
        live.status(f"dispatching {instance.name}")
        began_s = time.perf_counter()
        found = {LEARNED: dispatch(make, actors, instance)[0]}
        took_s = time.perf_counter() - began_s
        found[DRAWN] = shortest(instance, dispatch(make, actors, instance, 32))
        found |= {name: dispatched(instance, rule)[0] for name, rule in RULES.items()}
        found[RANDOM] = shortest(instance, dispatched(instance, drawn(rng(0, "jssp", instance.name)), 200))
        if (best := solved(instance, max(took_s, _LEAST_S))) is not None:
            found[CP_SAT] = best
        ends = {how: makespan(instance, start_JM) for how, start_JM in found.items()}
        rows[instance.name] = {**ends, "seconds": round(took_s, 3), "bounds": list(instance.bounds)}
        if not drawings:
            rule = min(RULES, key=lambda name: ends[name])
            last = max(ends[how] for how in (LEARNED, rule))
            drawings = [gantt(instance, found[how], how, ends[how], last) for how in (LEARNED, rule)]
    gaps = {how: gap for how in (LEARNED, DRAWN, *RULES, RANDOM, CP_SAT) if (gap := mean_gap(rows, how)) is not None}
    table = _table(rows, gaps)
    live.table(table.title, table.columns, table.rows)
    path = folder.path / TESTS
    path.mkdir(exist_ok=True)
    write(path, Page("", (table, Text((_READING,), "soft"), *drawings)))
    return {"tests": rows, "gaps": gaps}


_READING = (
    "The learned dispatcher plays once, greedily; beside it the best of 32 schedules drawn from it. Rules: shortest "
    "processing time, most work remaining, most operations remaining, first in first out; they and the best of 200 "
    "random schedules choose among the same operations as it does. CP-SAT searches for as long as the greedy "
    "dispatcher took, at least 0.05 s, on one thread; no number: it found nothing, or ortools is not installed (the "
    "extra scheduling). The last row is the mean excess over the best makespan that is known. Every schedule was "
    "checked."
)


def shortest(instance: Instance, starts: np.ndarray) -> np.ndarray:
    """The best of several schedules, ``[J, M]`` of ``[copies, J, M]``."""
    return min(starts, key=lambda one: makespan(instance, one))


def dispatch(make: Callable[[Views], Actors], actors: Actors, instance: Instance, copies: int = 1) -> np.ndarray:
    """Schedules of one problem as starts ``[copies, J, M]``: one greedily, several drawn from the policy."""
    env = JobShop(copies, instance.machine_JM.shape, (instance,))
    device = next(actors.parameters()).device
    views = Views(env.team, ids=False, device=device)
    other = make(views)
    other.load_state_dict(actors.state_dict())
    player = TeamPlayer(views, acting(other))
    player.play(env, episodes=copies, greedy=copies == 1, generator=torch.Generator(device), seed=0)
    return env.ended_BJM


def solved(instance: Instance, seconds: float) -> np.ndarray | None:
    """Starts ``[J, M]`` by CP-SAT on one thread; ``None`` where it found none in time, or is not installed."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return None
    model, horizon = cp_model.CpModel(), int(instance.duration_JM.sum())
    on: dict[int, list[Any]] = {}
    starts: list[list[Any]] = []
    end = model.new_int_var(0, horizon, "makespan")
    for machines, lengths in zip(instance.machine_JM.tolist(), instance.duration_JM.tolist(), strict=True):
        row = [model.new_int_var(0, horizon, "") for _ in machines]
        for k, (machine, length) in enumerate(zip(machines, lengths, strict=True)):
            on.setdefault(machine, []).append(model.new_fixed_size_interval_var(row[k], length, ""))
            model.add((row[k + 1] if k + 1 < len(row) else end) >= row[k] + length)
        starts.append(row)
    for intervals in on.values():
        model.add_no_overlap(intervals)
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 1
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return np.array([[solver.value(one) for one in row] for row in starts])


def mean_gap(rows: Mapping[str, Mapping[str, Any]], how: str) -> float | None:
    """Mean excess over the best makespan known; ``None`` unless there is one, and a schedule, of every problem."""
    known = [(row.get(how), row["bounds"][1]) for row in rows.values()]
    if not all(ends and best for ends, best in known):
        return None
    return float(np.mean([ends / best - 1 for ends, best in known if ends]))


def _table(rows: Mapping[str, Mapping[str, Any]], gaps: Mapping[str, float]) -> Table:
    columns = (LEARNED, DRAWN, *RULES, RANDOM, CP_SAT)
    body = [(name, row["bounds"][1] or None, *map(row.get, columns), row["seconds"]) for name, row in rows.items()]
    mean = ("mean excess", None, *(f"{100 * gaps[how]:.1f} %" if how in gaps else None for how in columns), None)
    return Table(("problem", "best known", *columns, "seconds"), (*body, mean), "Makespans of problems not trained on")


def gantt(instance: Instance, start_JM: np.ndarray, how: str, end: int, last: int) -> Spans:
    """A schedule as a Gantt chart: a row a machine, jobs by colour and number."""
    rows: list[list[tuple[float, float, int, str]]] = [[] for _ in range(instance.machine_JM.shape[1])]
    for job, k in np.ndindex(*start_JM.shape):
        start = int(start_JM[job, k])
        span = (float(start), float(start + instance.duration_JM[job, k]), job % 6, str(job))
        rows[int(instance.machine_JM[job, k])].append(span)
    named = tuple((f"M{m}", tuple(sorted(row))) for m, row in enumerate(rows))
    return Spans(f"{instance.name}, {how}: {end}", named, "time; numbers are jobs", float(last))
