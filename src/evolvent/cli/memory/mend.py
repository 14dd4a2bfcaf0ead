"""`evolvent memory revise|rollback|quarantine|…|erase`: each tells what it changes, and how to take it back."""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg

from evolvent.cli.memory.opening import DryRun, Id, Ids, Json, Reason, Scope, Where
from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump, mask_secrets
from evolvent.evaluate.live import Live, count
from evolvent.memory.there import open_memory

if TYPE_CHECKING:
    from evolvent.memory.maintenance.act import Mended

_ROWS = 40
_REASON = "asked for on the command line"


@dataclass(frozen=True)
class Act:
    """How an act is noted and told, and whether it is done."""

    reason: Reason = _REASON
    scope: Scope = "default"
    dry_run: DryRun = False
    json: Json = False


def rollback(store: Where, *, to: str, act: OmitArgPrefixes[Act] = Act()) -> None:
    """Return to the state at a recall or a time: archive later memories, and ignore later value updates.

    Example: evolvent memory rollback agent.db --to r12 --dry-run

    A time just before a rollback undoes that rollback.

    Args:
        to: receipt of a recall (r12: the state that it saw), or a time (2026-11-20, 2026-11-20T18:30).
    """
    began = datetime.now().astimezone()
    with closing(open_memory(store, act.scope)) as memory:
        tell(memory.rollback(to, act.reason, dry_run=act.dry_run), store, act, began)


def revise(
    store: Where,
    receipt: Annotated[str, Positional],
    *,
    reward: float | None = None,
    void: bool = False,
    source: str | None = None,
    weight: float | None = None,
    act: OmitArgPrefixes[Act] = Act(),
) -> None:
    """Replace the outcome of a settled recall, for instance of a merge that was reverted; credit is given again.

    Example: evolvent memory revise agent.db r12 --reward 0 --reason "the merge was reverted"

    What is not given (source, weight, what was done) is as it was reported before.

    Args:
        receipt: receipt of the recall (r12).
        reward: the outcome as it is known now.
        void: instead of a reward: the outcome says nothing about the attempt, and gives no credit.
        source: who says so (env, tests, judge, human, proxy).
        weight: how much the outcome counts, above 0 and at most 1.
    """
    if (reward is not None) == void:
        got = f"--reward {reward:g} --void" if reward is not None else "neither"
        raise BadInput(
            "not one outcome", got=got, expected="--reward NUMBER, or --void", where="evolvent memory revise"
        )
    began = datetime.now().astimezone()
    with closing(open_memory(store, act.scope)) as memory:
        more: dict[str, Any] = {} if weight is None else {"weight": weight}
        done = memory.revise(receipt, reward, act.reason, source=source, valid=not void, dry_run=act.dry_run, **more)
        tell(done, store, act, began)


def quarantine(store: Where, ids: Ids, *, descendants: bool = True, act: OmitArgPrefixes[Act] = Act()) -> None:
    """Exclude untrusted memories from recall, with the memories written under their influence.

    Example: evolvent memory quarantine agent.db m3 m7 --reason "from a spoofed page"

    Args:
        descendants: also quarantine memories written while these were shown, their descendants and later versions.
    """
    with closing(open_memory(store, act.scope)) as memory:
        done = memory.quarantine(_named(ids), act.reason, descendants=descendants, dry_run=act.dry_run)
        tell(done, store, act)


def restore(store: Where, ids: Ids, *, descendants: bool = False, act: OmitArgPrefixes[Act] = Act()) -> None:
    """Include memories in recall again, whatever excluded them.

    Example: evolvent memory restore agent.db m3

    Args:
        descendants: also restore memories derived from them.
    """
    began = datetime.now().astimezone()
    with closing(open_memory(store, act.scope)) as memory:
        done = memory.restore(_named(ids), act.reason, descendants=descendants, dry_run=act.dry_run)
        tell(done, store, act, began)


def compact(
    store: Where,
    *,
    keep: int = 1000,
    unsettled_days: float | None = None,
    scope: str = "default",
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Remove rows that are no longer needed, for good, and shrink the store.

    Example: evolvent memory compact agent.db --keep 1000 --dry-run

    Args:
        keep: number of newest receipts that keep their unselected candidates.
        unsettled_days: also remove receipts that are older and never got an outcome.
        scope: namespace whose receipts are trimmed.
    """
    age = None if unsettled_days is None else 86_400.0 * unsettled_days
    with closing(open_memory(store, scope)) as memory:
        done = memory.compact(keep=keep, unsettled=age, dry_run=dry_run)
        tell(done, store, Act(scope=scope, dry_run=dry_run, json=json))


def update(
    store: Where,
    id: Id,
    *,
    body: str | None = None,
    key: str | None = None,
    reason: Reason = _REASON,
    scope: Scope = "default",
) -> None:
    """Say a memory better: a new version, which goes on with the value and the statistics of the old one.

    Example: evolvent memory update agent.db m3 --body "hold the button for ten seconds"

    Args:
        body: what to show; default: as it is.
        key: when it applies; default: as it is.
    """
    with closing(open_memory(store, scope)) as memory, Live() as live:
        live.note(f"{id} is {memory.update(id, reason, key=key, body=body)} now")


def erase(
    store: Where,
    ids: Annotated[tuple[str, ...], Positional, arg(metavar="ID...")] = (),
    *,
    find: str = "",
    older_than: str = "",
    stage: str = "",
    act: OmitArgPrefixes[Act] = Act(),
) -> None:
    """Erase what memories, receipts or lines of the log said, for good; numbers, date and reason stay.

    Example: evolvent memory erase agent.db --find "anna@example.org" --dry-run

    Args:
        ids: ids of memories (m3), receipts (r7) or lines of the log (a2).
        find: every trace of this text, as `evolvent memory find` lists them.
        older_than: the words of all receipts before this time (2026-11-20); those without an outcome go.
        stage: with --older-than, only receipts of this stage.
    """
    if not ids and not find and not older_than:
        raise BadInput("nothing is named", expected="ids (m3 r7), --find TEXT or --older-than TIME", where="erase")
    with closing(open_memory(store, act.scope)) as memory:
        what: list[Any] = [*ids, *(memory.find(find) if find else ())]
        what += memory.receipts(before=older_than, stage=stage or None) if older_than else ()
        tell(memory.erase(what, act.reason, dry_run=act.dry_run), store, act)


def drop_scope(store: Where, name: Annotated[str, Positional], *, yes: bool = False, reason: Reason = _REASON) -> None:
    """Erase a scope with everything in it, for good.

    Example: evolvent memory drop-scope agent.db old-customer --yes

    Args:
        name: the scope.
        yes: really do it; without this flag nothing happens.
    """
    with closing(open_memory(store, name)) as memory, Live(plain=True) as live:
        if not yes:
            do = "give --yes; `evolvent memory export` makes a copy first"
            raise BadInput("that is for good", got=name, where="evolvent memory drop-scope", do=do)
        removed = memory.drop_scope(name, reason)
        _table(live, f"Scope {name!r} is gone", ["table", "rows"], [[table, n] for table, n in removed.items() if n])


def _named(ids: tuple[str, ...]) -> list[str]:
    if not ids:
        raise BadInput("no memories are named", expected="ids, e.g. m3 m7", where="evolvent memory")
    return list(ids)


def tell(done: Mended, store: str, act: Act, began: datetime | None = None) -> None:
    """What changed, or would: tables on a terminal, or JSON; and how to take it back."""
    with Live(plain=True) as live:
        if act.json:
            live.note(dump(asdict(done), indent=2))
            return
        if done.nothing:
            live.note("nothing to change" + _still_quarantined(done))
            return
        now = "would be" if act.dry_run else "is"
        _table(
            live,
            count(len(done.statuses), "memory", "memories"),
            ["id", "was", now],
            [list(row) for row in done.statuses],
        )
        values = [[v.id, f"{v.objective}/{v.stage}", v.was, v.now] for v in done.values]
        _table(live, count(len(values), "value"), ["id", "of", "was", now], values)
        _table(live, "Rows removed", ["table", "rows"], [[table, n] for table, n in done.removed.items() if n])
        emptied = [[what, n] for what, n in done.emptied.items() if n]
        _table(live, "Texts taken out of rows that stay", ["texts", "rows"], emptied)
        if done.events:
            events = count(abs(done.events), "value event")
            verb = "counts" if abs(done.events) == 1 and not act.dry_run else "count"
            again = f"{verb} again" if done.events < 0 else f"no longer {verb}"
            live.note(f"\n{events} {'would ' if act.dry_run else ''}{again}")
        if done.kept:
            live.note(_still_quarantined(done).lstrip("; "))
        if act.dry_run:
            live.note("\ndry run: nothing was changed")
        else:
            live.note(f"\n{done.verb} done as {done.act}{_back(done, mask_secrets(store), act.scope, began)}")


def _back(done: Mended, store: str, scope: str, began: datetime | None) -> str:
    """The command that takes an act back; a compaction is for good."""
    where = "" if scope == "default" else f" --scope {shlex.quote(scope)}"

    def command(verb: str, rest: str) -> str:
        return f"; take it back with: evolvent memory {verb} {shlex.quote(store)} {rest}{where}"

    if done.verb == "restore" and all(change.was == "quarantined" for change in done.statuses):
        return command("quarantine", " ".join(change.id for change in done.statuses) + " --no-descendants")
    if done.verb == "quarantine":  # what was out of recall before stays out of it
        ids = [change.id for change in done.statuses if change.was == "active"]
        return command("restore", " ".join(ids)) if ids else ""
    return "" if began is None else command("rollback", f"--to {began.isoformat()}")


def _still_quarantined(done: Mended) -> str:
    return f"; still quarantined: {', '.join(done.kept[:20])}" if done.kept else ""


def _table(live: Live, title: str, columns: list[str], rows: list[list[object]]) -> None:
    if rows:
        live.table(title, columns, rows[:_ROWS])
        if len(rows) > _ROWS:
            live.note(f"… and {len(rows) - _ROWS} more (all with --json)")


COMMANDS = {
    "revise": revise,
    "rollback": rollback,
    "quarantine": quarantine,
    "restore": restore,
    "compact": compact,
    "update": update,
    "erase": erase,
    "drop-scope": drop_scope,
}
