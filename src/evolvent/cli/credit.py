"""`evolvent credit`: any credit rule over the attempts that a run has recorded, several of them side by side."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional

from evolvent import catalogue
from evolvent.core.arguments import parsed
from evolvent.core.branches import linear
from evolvent.core.credit_rule import CreditRule
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import check_target, dump, write_atomic
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.evaluate.live import Live, count
from evolvent.evaluate.pages import credit_units, page
from evolvent.evaluate.pages.credit_units import Book
from evolvent.runs.team.record import stored

_WHERE = "evolvent credit"
PAGE = "credit.html"
"""The page, in the run folder."""


def credit(
    folder: Annotated[Path, Positional],
    *,
    rule: tuple[str, ...],
    rule_options: tuple[str, ...] = (),
    top: int = 10,
    last: bool = False,
    html: Path | None = None,
    json: Path | None = None,
    plain: bool = False,
) -> None:
    """Credit of the recorded attempts of a run, computed by one or more credit rules, as a table and as a page.

    Example: evolvent credit runs/demo --rule memlift

    Args:
        folder: run folder with episodes.jsonl, or of a team with rollout.json.
        rule: credit rules: names of `evolvent list credit`, file.py:assign or package.module:assign; settings may
            follow, e.g. step_gae:gamma=0.95 or my_rule.py:assign,scale=2.
        rule_options: settings for every named rule, as key=value.
        top: how many units with the most credit to show, and as many with the least.
        last: read only the recorded attempts of the last update or pass.
        html: where to write the page; default: credit.html in the run folder.
        json: also write the credit of every unit to this file.
        plain: plain text output even on a terminal.
    """
    chosen = [(text, *_with_options(text, rule_options)) for text in rule]
    if not chosen:
        raise BadInput("no credit rule", expected="--rule NAME", where=_WHERE, do="see `evolvent list credit`")
    if top < 1:
        raise BadInput("nothing to show", got=top, expected="at least 1", where="--top")
    for path, flag in ((json, "--json"), (html, "--html")):
        check_target(path, flag)
    opened = RunFolder.open(folder)
    with opened, Live(plain=True if plain else None) as live:
        live.status("reading what the run recorded")
        episodes = read(opened, last=last) if any(one.RECORD == "episode" for _, one, _ in chosen) else []
        books: list[Book] = []
        refused: list[BadInput] = []
        for text, one, config in chosen:
            live.status(f"credit by {text}")
            try:
                ledger = applied(one, config, episodes, opened)
            except BadInput as error:
                refused.append(error)
                if len(chosen) > 1:
                    live.note(f"! {text}: {error}")
                continue
            books.append(
                credit_units.team_book(text, ledger)
                if isinstance(ledger, RolloutLedger)
                else credit_units.book(text, one.LEVEL, ledger)
            )
        if not books:
            raise refused[0]
        attempts = sum(len(episode.ends) for episode in episodes)
        what = f"{attempts} attempts" if episodes else "the newest rollout that was stored"
        if attempts > len(episodes):
            records = count(len(episodes), "record")
            live.note(f"{attempts} attempts in {records}: what some share is one unit, with their mean")
        _show(books, f"{folder}: {what}", top, live)
        for warning in incomplete(episodes, opened.config, finished=opened.finished):
            live.note(f"! {warning}")
        if json is not None:
            data = {"run": str(folder), "rules": [credit_units.to_json(made) for made in books]}
            write_atomic(json, dump(data, indent=2) + "\n")
            live.note(f"credit: {json}")
        drawn = opened.path / PAGE if html is None else html
        try:
            write_atomic(drawn, _page(books, _heads(opened, episodes), drawn.parent, max(top, 50)))
        except PermissionError as error:
            raise BadInput(
                "the page cannot be written", got=error.strerror, where=str(drawn), do="--html FILE"
            ) from error
        live.note(f"page: {drawn}")


def read(folder: RunFolder, *, last: bool = False, where: str = _WHERE) -> list[Episode]:
    """The recorded attempts of a run; ``last``: of its last update or pass alone.

    Raises:
        BadInput: none were recorded.
    """
    newest = max((_update(record) for record in folder.read_episodes()), default=0) if last else 0
    taken = (record for record in folder.read_episodes() if not last or _update(record) == newest)
    episodes = list(map(Episode.from_dict, taken))
    if not episodes:
        raise BadInput(
            "the run has recorded no attempts",
            got=str(folder.path),
            expected="lines in episodes.jsonl",
            where=where,
            do="language models: --record N keeps N attempts of each update; teams in lockstep: agent_gae, …",
        )
    return episodes


def _update(record: Mapping[str, Any]) -> int:
    """In which update or pass it was recorded."""
    return int(record.get("step", 0))


def incomplete(episodes: Sequence[Episode], config: dict[str, Any], *, finished: bool) -> list[str]:
    """Groups of which only a part was recorded: credit that compares them is not the one that trained."""
    counts: dict[str, int] = {}
    for episode in episodes:
        counts[episode.group or episode.task_id] = counts.get(episode.group or episode.task_id, 0) + 1
    size = int(config.get("group", 0))
    short = sum(n < size for n in counts.values())
    if not short:
        return []
    whole = (
        "--last takes the last update, of which all are recorded"
        if finished
        else "the run has not ended, and only at its end all attempts of the last update are recorded (--resume)"
    )
    return [
        f"{short} of {len(counts)} groups are not whole: fewer than {size} attempts of them were recorded. Credit that "
        f"compares attempts compares those alone; {whole}; a run with --record "
        f"{int(config.get('prompts', 1)) * size} keeps all"
    ]


def applied(rule: CreditRule, config: Any, episodes: Sequence[Episode], folder: RunFolder) -> Any:
    """The ledger of a rule over what a run has recorded.

    Raises:
        BadInput: what the record lacks for this rule.
    """
    if rule.RECORD == "rollout":
        return _of_team(rule, config, folder)
    if config is not None and any(f.name == "embed" and config.embed is None for f in dataclasses.fields(config)):
        from evolvent.memory import embedders

        config = dataclasses.replace(config, embed=embedders.load().embed)
    ledger = rule.assign(linear(episodes), config)  # rules score attempts one by one
    if not (ledger.size(rule.LEVEL) and (ledger.values(rule.LEVEL) == ledger.values(rule.LEVEL)).any()):
        raise BadInput(
            "the rule scored nothing",
            got=f"{ledger.size(rule.LEVEL)} units at level {rule.LEVEL!r}",
            expected=_NEEDED[rule.LEVEL],
            where=f"credit rule {rule.name}",
            do="take a run that records them" if any(e.valid for e in episodes) else _UNTOLD,
        )
    return ledger if len(ledger.episodes) == len(episodes) else ledger.over_trees(rule.LEVEL)


def _of_team(rule: CreditRule, config: Any, folder: RunFolder) -> RolloutLedger:
    """The ledger of a rule over the rollout that a team has stored, given those columns beside it that it asks for."""
    rollout, columns = stored(folder.path)
    asked = [p for p in inspect.signature(rule.function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    missing = [p.name for p in asked if p.default is p.empty and p.name not in columns]
    if missing:
        raise BadInput(
            "the run has stored no column that the rule asks for",
            got=", ".join(columns) or "none besides the rollout",
            expected=", ".join(missing),
            where=f"credit rule {rule.name}",
            do="take a run with a critic of joint actions: coma, or mappo with --optimal-baseline surrogate",
        )
    return rule.assign(rollout, config, **{p.name: columns[p.name] for p in asked if p.name in columns})


_UNTOLD = "no attempt has an outcome: tell them (evolvent import FILE --outcomes FILE.jsonl --replace)"
_NEEDED = {
    "token": "attempts with token ids of their decisions",
    "step": "attempts with decisions and an outcome",
    "agent": "attempts with decisions and an outcome",
    "memory": "attempts that were shown memories (a run of memlift or another memory system)",
    "component": "attempts that ran components of a workflow",
}
"""What a record must hold for credit at a level."""


def _with_options(text: str, options: Sequence[str]) -> tuple[CreditRule, Any]:
    rule, config = catalogue.rule_with_settings(text)
    given = rule.settings(options)
    if not options or config is None:
        return rule, config
    named = {pair.partition("=")[0].strip() for pair in options}
    return rule, dataclasses.replace(config, **{name: getattr(given, name) for name in named})


def _show(books: Sequence[Book], title: str, top: int, live: Live) -> None:
    live.table(title, *credit_units.summary(list(books)))
    for made in books:
        if not made.balanced:
            live.note(f"{made.rule}: {_why(made)}")
    for made in books:
        live.table(f"{made.rule}: who earned most and least", *credit_units.rows(made, top))


def _why(made: Book) -> str:
    if not any(one.share for one in made.units):
        return "every unit got 0: the record holds nothing that this rule could tell apart (memories left out, returns)"
    gap = made.total - made.paid
    return (
        f"its total is {abs(gap):.4g} {'more' if gap > 0 else 'less'} than what was paid; "
        "a rule that compares attempts, counts a reward at every step before it, discounts, or reads other rewards, "
        "and one over attempts that share a beginning, which counts once, does not hand out the reward itself"
    )


def _heads(folder: RunFolder, episodes: Sequence[Episode]) -> tuple[str, str, Path]:
    """Title of the page, what stands under it, and the report of the run."""
    manifest, name, report = folder.manifest(), folder.path.resolve().name, folder.path / "report.html"
    if manifest["algo"] != "import":
        return f"Credit: {manifest['algo']} on {manifest['env']}", f"{name}, seed {manifest['seed']}", report
    formats = dict.fromkeys(str(e.meta["source"]["format"]) for e in episodes)
    files: list[str] = (folder.summary() if folder.finished else {}).get("files") or manifest["config"]["files"]
    shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return f"Credit: attempts imported from {', '.join(formats)} ({shown})", name, report


def _page(books: Sequence[Book], heads: tuple[str, str, Path], at: Path, top: int) -> str:
    title, under, report = heads
    back = page.text(under)
    if report.exists():
        back = f'<a href="{page.text(page.way(report, at))}">{back}</a>'
    parts = [f"<header><h1>{page.text(title)}</h1><p class='soft'>{back}</p></header>"]
    parts.append(page.table(*credit_units.summary(list(books))))
    for made in books:
        columns, rows = credit_units.rows(made, top)
        note = "" if made.balanced else f"<p class='soft'>{page.text(_why(made))}</p>"
        left = [i for i, name in enumerate(columns) if name not in ("attempts", "credit", "share")]
        parts.append(page.section(made.rule, note + page.table(columns, rows, left=left)))
    return page.page(title, parts)


def _main(arguments: Sequence[str]) -> None:
    """`--rule A --rule B` is `--rule A B`: of a flag that is given twice the parser would keep the last alone."""
    rules, rest, inside = list[str](), list[str](), False
    for word in arguments:
        flag, equals, value = word.partition("=")
        inside = flag == "--rule" if word.startswith("-") else inside
        if flag == "--rule":
            rules += [value] if equals else []
        else:
            (rules if inside else rest).append(word)
    parsed(credit, [*rest, "--rule", *rules] if rules else arguments, "evolvent credit")


COMMANDS = {"credit": _main}
