"""Promises of a memory: several scopes of a store in one recall."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evolvent.memory.memory import Memory
from evolvent.memory.scopes import ScopedRecall, Scopes

from .credit import make, refused

Factory = Callable[..., Memory]


def several_scopes_are_recalled_together(factory: Factory) -> None:
    """The best of all scopes are shown, each scope credits its own, and what had no room is not credited."""
    with make(factory, scope="user") as user, make(factory, scope="team", reward_range=(-1.0, 1.0)) as team:
        theirs, ours = user.remember("task one of the east", "theirs"), team.remember("task one of the east", "ours")
        spare = team.remember("task one", "spare")
        both = Scopes(user, team)
        assert [item.id for item in both.search("task one of the east", k=2)] == [theirs, ours]
        r = both.recall("task one of the east", k=2)
        assert r.ids == [theirs, ours] == [item.id for item in r] and len(r) == 2
        assert [r.scope_of(id_) for id_ in r.ids] == ["user", "team"]
        changes = both.settle(r, 0.5)
        assert [[c.id for c in changes[name] if c.rule == "shown"] for name in ("user", "team")] == [[theirs], [ours]]
        assert both.settle(r, 0.5) == changes, "a retry counts nothing twice"
        assert user.get(theirs).n == team.get(ours).n == 1 and team.get(spare).n == 0
        late = both.recall("task one of the east", k=2)
        both.shown(late, [ours])
        both.settle(late, 1.0)
        assert user.get(theirs).n == 1 and team.get(ours).n == 2
        third = both.recall("task one of the east", k=2)
        for wrong in ({"reward": -0.5}, {"reward": 1.0, "child": ours}):  # one scope could take it, the other not
            with refused(f"{wrong} in two scopes"):
                both.settle(third, **wrong)
        assert not any(m.explain(third.receipts[m.scope]).to_dict()["outcomes"] for m in (user, team)), (
            "reported to one"
        )
        with refused("an item of no scope"):
            both.shown(both.recall("task one of the east", k=1), ["m999"])
        for wrong in ((), (user, user)):
            with refused("no set of scopes"):
                Scopes(*wrong)
        with make(factory, name="b") as other, refused("another store"):
            Scopes(user, other)
        alone = Scopes(user).recall("task one of the east")
        other = both.recall("task two")
        mixed = "+".join((third.receipts["user"].id, other.receipts["team"].id))
        swapped = ScopedRecall((), {"user": third.receipts["team"], "team": third.receipts["user"]})
        strange = ScopedRecall((), {"user": third.receipts["user"], "x": third.receipts["team"]})
        with refused("to show what another set of scopes recalled", code="unknown_receipt"):
            both.shown(strange)
        for given in (alone, alone.id, f"{third.id}+{alone.id}", f"{third.id}+r999", mixed, swapped, strange):
            for verb in (partial(both.settle, given, 1.0), partial(both.revise, given, 1.0, "why")):
                with refused(f"{given} for a receipt of each scope", code="unknown_receipt"):
                    verb()
        odd: list[Any] = [None, 7, r.ids, r.receipts["user"]]
        for thing in odd:
            verbs = (
                partial(both.settle, thing, 1.0),
                partial(both.shown, thing),
                partial(both.revise, thing, 1.0, "why"),
            )
            for verb in (*verbs, partial(Scopes, user, thing)):
                with refused(f"{thing!r} for a recall, or a memory", code="wrong_type"):
                    verb()
        with refused("no ids", code="wrong_type"):
            both.shown(third, "m1")
        both.shown(third)
        assert both.settle(third.id, 1.0) == both.settle(third, 1.0), "its id tells all of it"
        assert user.get(theirs).n == 2
        value = user.get(theirs).value
        both.revise(third.id, 0.0, "it did not hold")
        assert user.get(theirs).n == 2 and user.get(theirs).value < value


def many_recalls_of_several_scopes_are_each_after_the_other(factory: Factory) -> None:
    """What ``recall`` gives one by one; a revision is reported to all scopes, or to none."""
    seen = []
    for way in ("loop", "many"):
        with make(factory, name=way, scope="user") as user, make(factory, name=way, scope="team") as team:
            ids = [m.remember(f"task {i} of {m.scope}", m.scope) for m in (user, team) for i in range(3)]
            both, tasks = Scopes(user, team), [f"task {i}" for i in range(3)]
            recalled = [both.recall(task, k=2) for task in tasks] if way == "loop" else both.recall_many(tasks, k=2)
            for r in recalled[:2]:
                both.settle(r, 1.0, source="tests")
            before = [(m.get(id_).value, m.get(id_).n) for m, id_ in zip([user] * 3 + [team] * 3, ids, strict=True)]
            with refused("a revision of what is not settled", code="not_settled"):
                both.revise(recalled[2], 0.0, "why")
            user.settle(recalled[2].receipts["user"], 1.0)
            with refused("a revision that one scope refuses", code="not_settled"):
                both.revise(recalled[2], 0.0, "why")
            assert user.explain(recalled[2].receipts["user"]).to_dict()["outcomes"][-1]["reward"] == 1.0
            rehearsed = both.revise(recalled[0], 0.0, "reverted", dry_run=True)
            done = both.revise(recalled[0], 0.0, "reverted")
            assert {name: t.values for name, t in rehearsed.items()} == {name: d.values for name, d in done.items()}
            assert all(one.nothing for one in both.revise(recalled[0], 0.0, "again").values())
            seen.append((before, [r.ids for r in recalled], sorted(v for d in done.values() for v in d.values)))
    assert seen[0] == seen[1]
