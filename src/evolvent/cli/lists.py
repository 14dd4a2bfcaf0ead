"""`evolvent list`: what to use for what you have; algorithms, environments, models, credit rules, searches."""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from evolvent import catalogue, start
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput, closest, install
from evolvent.evaluate.live import Live

_Tables = tuple[list[str], dict[str, list[list[object]]], list[str]]
"""Columns, rows by the title of their table, and what installed packages bring that does not load."""


def list_what(what: Annotated[str, tyro.conf.Positional] = "start", *, plain: bool = False) -> None:
    """What to use for what you have; or all algorithms, environments, models, credit rules or searches.

    Example: evolvent list algos

    Args:
        what: start, algos, envs, models, credit, search, or all of the last five.
        plain: plain text output even on a terminal.
    """
    kinds = ("algos", "envs", "models", "credit", "search")
    if what not in ("start", *kinds, "all"):
        known = ("start", *kinds, "all")
        raise BadInput("nothing of that name", got=what, expected=closest(what, known), where="evolvent list")
    with Live(plain=True if plain else None) as live:
        if what == "start":
            for choice in start.choices():
                live.note(start.described(choice))
            live.note("\nAll there is, a line each: evolvent list algos | envs | models | credit | search")
            live.note(f"An extra is installed with: {install('EXTRA')}")
            return
        for kind in kinds if what == "all" else (what,):
            columns, tables, wrong = _LISTS[kind]()
            for title, rows in tables.items():
                live.table(title, columns, rows)
            for reason in wrong:
                live.note(f"! left out: {reason}")


def _list_algos() -> _Tables:
    def row(entry: catalogue.Entry) -> list[object]:
        levels = ", ".join(entry.constants.get("LEVELS", ())) or None
        return [entry.name, entry.constants.get("PAPER"), levels, entry.constants.get("STATUS"), _summary(entry)]

    found, wrong = catalogue.brought("algos")
    tables = {f"algos, {kind}": [row(entry) for entry in group] for kind, group in catalogue.by_kind(found).items()}
    return ["name", "paper", "levels", "status", ""], tables, wrong + catalogue.brought("kinds")[1]


def _list_credit() -> _Tables:
    labels = {True: "exact", False: "biased", None: None}
    rows: list[list[object]] = []
    found, wrong = catalogue.brought("credit")
    for entry in [*catalogue.entries("credit"), *found]:
        unbiased = entry.constants.get("UNBIASED")
        level = entry.constants.get("LEVEL")
        rows.append([entry.name, level, labels.get(unbiased, unbiased), _summary(entry)])
    return ["rule", "level", "policy gradient", ""], {"credit": rows}, wrong


def _list_envs() -> _Tables:
    from evolvent import envs

    found, wrong = envs.brought()
    rows: list[list[object]] = [[row.name, row.kind, _summary(row), row.options] for row in [*envs.available(), *found]]
    return ["name", "for", "", "options (name:VARIANT,key=value,…)"], {"envs": rows}, wrong


def _list_search() -> _Tables:
    rows: list[list[object]] = [
        [entry.name, entry.constants.get("PAPER"), entry.constants.get("AGGREGATE", "last_max"), _summary(entry)]
        for entry in catalogue.entries("search")
    ]
    return ["name", "paper", "answer by", ""], {"searches (evolvent run search --search NAME)": rows}, []


def _summary(row: Any) -> str:
    """Its first line, with the installed package that brings it."""
    return f"{row.summary} (from {row.package})" if row.package else row.summary


def _list_models() -> _Tables:
    from evolvent import models

    rows = models.cached_models()
    return list(rows[0]), {"models": [list(row.values()) for row in rows]}, []


_LISTS = {
    "algos": _list_algos,
    "envs": _list_envs,
    "models": _list_models,
    "credit": _list_credit,
    "search": _list_search,
}


COMMANDS = {"list": lambda arguments: parsed(list_what, arguments, "evolvent list")}
