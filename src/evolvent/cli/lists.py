"""`evolvent list`: algorithms, environments, models, credit rules."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import tyro

from evolvent import catalogue
from evolvent.core.errors import BadInput
from evolvent.evaluate.live import Live


def list_what(what: Annotated[str, tyro.conf.Positional] = "all", *, plain: bool = False) -> None:
    """What there is to run.

    Args:
        what: algos, envs, models, credit, or all of them.
        plain: plain lines even on a terminal.
    """
    kinds = ("algos", "envs", "models", "credit")
    if what not in (*kinds, "all"):
        raise BadInput("nothing of that name", got=what, expected=catalogue.closest(what, kinds), where="evolvent list")
    with Live(plain=True if plain else None) as live:
        for kind in kinds if what == "all" else (what,):
            columns, rows = _LISTS[kind]()
            live.table(kind, columns, rows)


def _list_algos() -> tuple[list[str], list[list[object]]]:
    rows: list[list[object]] = []
    for entry in catalogue.entries("algos"):
        levels = ", ".join(entry.constants.get("LEVELS", ())) or None
        rows.append([entry.name, entry.constants.get("PAPER"), levels, entry.constants.get("STATUS"), entry.summary])
    return ["name", "paper", "levels", "status", ""], rows


def _list_credit() -> tuple[list[str], list[list[object]]]:
    words = {True: "exact", False: "biased", None: None}
    rows: list[list[object]] = []
    for entry in catalogue.entries("credit"):
        unbiased = entry.constants.get("UNBIASED")
        level = entry.constants.get("LEVEL")
        rows.append([entry.name, level, words.get(unbiased, unbiased), entry.summary])
    return ["rule", "level", "policy gradient", ""], rows


def _list_envs() -> tuple[list[str], list[list[object]]]:
    from evolvent import envs

    rows: list[list[object]] = [[row.name, row.kind, row.summary, row.options] for row in envs.available()]
    return ["name", "for", "", "options (name:VARIANT,key=value,…)"], rows


def _list_models() -> tuple[list[str], list[list[object]]]:
    from evolvent import models

    found = models.cached_models()
    rows = [dataclasses.asdict(row) if dataclasses.is_dataclass(row) else dict(row) for row in found]  # type: ignore[arg-type]
    columns = list(rows[0]) if rows else ["name"]
    return columns, [[row[name] for name in columns] for row in rows]


_LISTS = {"algos": _list_algos, "envs": _list_envs, "models": _list_models, "credit": _list_credit}


COMMANDS = {"list": lambda words: tyro.cli(list_what, args=words, prog="evolvent list")}
