"""Promises of a memory: who is credited, and by how much."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from evolvent.core.errors import BadInput, EvolventError
from evolvent.memory.embedders import Hashing
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import Policy, preset

Factory = Callable[..., Memory]
# no gate, no chance: what a check selects is what it wrote (and a start from which memq may learn without chance)
OPEN = {"gate": -1.0, "epsilon": 0.0, "q_init": "middle"}
LIFT = {"gate": -1.0, "hide": 0.0, "omit": 0.4, "omit_n0": 20.0}


class CountingEmbedder:
    """The hashing embedder, counting the texts it was asked for."""

    def __init__(self, dim: int = 64) -> None:
        self._inner = Hashing(dim)
        self.id, self.dim, self.calls, self.texts = self._inner.id, dim, 0, 0

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-norm float32 ``[N, dim]``."""
        self.calls += 1
        self.texts += len(texts)
        return self._inner.embed(texts)


def make(factory: Factory, policy: str | Policy = "memrl", name: str = "a", **options: object) -> Memory:
    """A store whose recalls depend on nothing but its content."""
    chosen = preset(policy, **OPEN) if isinstance(policy, str) else policy
    return factory(name, **{"policy": chosen, "embedder": "hash:64", **options})


@contextlib.contextmanager
def refused(what: str, error: type[EvolventError] = BadInput, code: str | None = None) -> Iterator[None]:
    """The block must raise ``error``, with a message and a code (``None``: any)."""
    try:
        yield
    except error as raised:
        assert str(raised).strip(), f"{what}: refused without a message"
        assert raised.code if code is None else raised.code == code, f"{what}: code {raised.code!r}"
        return
    raise AssertionError(f"{what} was accepted")


def close_to(got: float, expected: float, what: str = "value") -> None:
    """Equal to 1e-9."""
    assert math.isclose(got, expected, rel_tol=0.0, abs_tol=1e-9), f"{what}: got {got}, expected {expected}"


def values(memory: Memory) -> dict[str, float]:
    """Current value by id."""
    return {item.id: item.value for item in memory.items(None)}


# ------------------------------------------------------------------------------------------------ settling
def a_receipt_settles_once_per_objective(factory: Factory) -> None:
    """A retry changes nothing and reports the first changes; another outcome is refused, another objective is not."""
    with make(factory) as memory:
        memory.remember("task one", "body")
        r = memory.recall("task one")
        first = memory.settle(r, 1.0)
        before = values(memory)
        assert memory.settle(r, 1.0) == first and values(memory) == before, "settled twice"
        assert memory.settle(r.id, 1.0, idempotency_key="again") == first and values(memory) == before
        another = {
            "another reward": {"reward": 0.0},
            "another source": {"source": "human"},
            "an action reported later": {"action": "what was done"},
            "a late doubt": {"valid": False},
        }
        for what, changed in another.items():
            with refused(f"{what} for a settled receipt"):
                memory.settle(r, **{"reward": 1.0, **changed})
            with refused(f"{what} for a receipt settled in the same call"):
                memory.settle_many([{"recalled": r, "reward": 1.0}, {"recalled": r, "reward": 1.0, **changed}])
        assert values(memory) == before
        speed = memory.settle(r, 0.0, objective="speed")
        assert speed and values(memory) == before, "objectives share a value"


def an_outcome_counts_once_across_receipts(factory: Factory) -> None:
    """The same idempotency key under a new receipt (a retried job) is a no-op."""
    with make(factory) as memory:
        memory.remember("task one", "body")
        first = memory.settle(memory.recall("task one"), 1.0, idempotency_key="job 7")
        before = values(memory)
        assert memory.settle(memory.recall("task one"), 1.0, idempotency_key="job 7") == first
        assert values(memory) == before, "one outcome was counted twice"
        slow = memory.settle(memory.recall("task one"), 0.0, idempotency_key="job 7", objective="speed")
        assert [c.objective for c in slow] == ["speed"], "one job cannot report two objectives"
        memory.settle(memory.recall("task one"), None, valid=False, idempotency_key="job 8")
        late = memory.settle(memory.recall("task one"), 0.0, idempotency_key="job 8")
        assert late, "a job whose judge failed at first cannot report any more"
        assert memory.settle(memory.recall("task one"), None, valid=False, idempotency_key="job 8") == []


def only_shown_items_are_credited(factory: Factory) -> None:
    """Not what was retrieved, not what was selected: what survived prompt assembly."""
    with make(factory) as memory:
        ids = [memory.remember(f"task {w}", w) for w in ("one", "two", "three", "four", "five")]
        r = memory.recall("task one", k=3)
        assert len(r.items) == 3 and r.pool_size == 5
        memory.shown(r, r.ids[:1])
        changes = memory.settle(r, 1.0)
        assert [c.id for c in changes] == r.ids[:1], "credited an item that was not shown"
        assert {i for i in ids if memory.get(i).n} == set(r.ids[:1])
        with refused("an item that was not handed out"):
            memory.shown(memory.recall("task one", k=1), [next(i for i in ids if i not in r.ids)])
        with refused("shown() after settling"):
            memory.shown(r, [])
        empty = memory.recall("task one")
        memory.shown(empty, [])
        assert memory.settle(empty, 1.0) == [], "credit without any memory shown"


def items_stand_for_their_ids(factory: Factory) -> None:
    """Wherever the id of a memory is asked for, what a recall or a list handed out will do."""
    with make(factory) as memory:
        a, b = memory.remember("task one", "one"), memory.remember("task two", "two")
        r = memory.recall("task one", k=2)
        memory.shown(r, r.items[:1])
        assert [c.id for c in memory.settle(r, True)] == [r.items[0].id]
        second = memory.recall("task one", k=2)
        memory.shown(second, second)  # type: ignore[arg-type]
        assert len(memory.settle(second, False)) == 2
        child = memory.remember("task three", "three", parents=second.items)
        assert set(memory.get(child).parents) == {a, b} and memory.explain(second.items[0]).subject == r.items[0].id
        (item,) = [one for one in memory.items() if one.id == b]
        memory.archive(item, "why")  # type: ignore[arg-type]
        memory.restore([item], "why")  # type: ignore[list-item]
        assert memory.get(item).status == "active" and memory.items(after=item)[0].id == child  # type: ignore[arg-type]
        with refused("a memory for a receipt", code="not_an_id"):
            memory.settle(item, 1.0)  # type: ignore[arg-type]


def a_truth_value_is_an_end_of_the_range(factory: Factory) -> None:
    """True is success and False is failure, whatever the numbers of these are; in parts, revisions and batches too."""
    for i, (low, high) in enumerate(((0.0, 1.0), (-1.0, 1.0), (-100.0, 0.0))):
        with make(factory, name=f"range-{i}", reward_range=(low, high)) as memory:
            memory.remember("task one", "the body of one")
            r = [memory.recall("task one") for _ in range(5)]
            memory.settle(r[0], True)
            memory.settle_many([{"recalled": r[1], "reward": False}, {"recalled": r[2], "reward": np.True_}])
            memory.settle(r[3], None, parts=[("the body of one", True), ("another", False)])
            memory.settle(r[4], False, valid=False)
            memory.revise(r[2], False, "why")
            explained = [[o["reward"] for o in memory.explain(one).to_dict()["outcomes"]] for one in r]
            assert explained == [[high], [low], [high, low], [(low + high) / 2], [low]], explained


def invalid_outcomes_teach_nothing(factory: Factory) -> None:
    """A crashed judge is recorded, credits nobody, and leaves room for the valid outcome."""
    with make(factory) as memory:
        memory.remember("task one", "body")
        r, before = memory.recall("task one"), values(memory)
        assert memory.settle(r, None, valid=False, source="judge") == []
        assert memory.settle(r, math.nan, valid=False) == []
        assert values(memory) == before
        outcomes = memory.explain(r).to_dict()["outcomes"]
        assert len(outcomes) == 2 and not any(o["valid"] for o in outcomes)
        assert memory.settle(r, 1.0), "the valid outcome was lost"


def nonsense_is_refused_and_nothing_written(factory: Factory) -> None:
    """NaN, infinite and out-of-range rewards, unknown receipts, memories, sources, policies."""
    with make(factory) as memory:
        memory.remember("task one", "body")
        r, before = memory.recall("task one"), values(memory)
        for reward in (math.nan, math.inf, -math.inf, 1.5, -0.1, None, "good", "1", b"1", 10**400):
            with refused(f"reward {reward}"):
                memory.settle(r, reward)  # type: ignore[arg-type]
        for receipt in ("r999", "m1", "7", "", "r1x", "r" * 30):
            with refused(f"receipt {receipt!r}"):
                memory.settle(receipt, 1.0)
        for weight in ("1", True, None):
            with refused(f"weight {weight!r}"):
                memory.settle(r, 1.0, weight=weight)  # type: ignore[arg-type]
        with refused("a source nobody knows"):
            memory.settle(r, 1.0, source="gossip")
        with refused("a child nobody knows"):
            memory.settle(r, 1.0, child="m999")
        with refused("a parent nobody knows"):
            memory.remember("task two", "b", parents=["m999"])
        with refused("a policy nobody knows"):
            memory.recall("task one", policy="memlr")
        with refused("a negative k"):
            memory.recall("task one", k=-1)
        with refused("a text for a truth value"):
            memory.settle(r, 1.0, valid="false")  # type: ignore[arg-type]
        for name in ("rag", "random"):
            asks_all = preset(name, k=10**30, pool=10**30)
            assert len(memory.recall("task one", policy=asks_all)) == 1, "more than a server can count"
        assert values(memory) == before and memory.explain(r).to_dict()["outcomes"] == []
        assert len(memory.settle(r, 1.0)) == 1, "a refused settle used the receipt up"


def settle_calls_no_embedder(factory: Factory) -> None:
    """Values change without a single vector being computed; each text is embedded once in the life of a store."""
    embedder = CountingEmbedder()
    with make(factory, "memq", embedder=embedder) as memory:
        a = memory.remember("task one", "body")
        memory.remember("task two", "body two", parents=[a])
        r = memory.recall("task one")
        texts = embedder.texts
        assert texts == 2, f"two texts, embedded {texts} times"
        memory.settle(r, 1.0, action="SELECT 1", child=None)
        _ = memory.explain(a), memory.health(), memory.rebuild_values()
        memory.remember("task one", "another body")  # a key that is known
        assert embedder.texts == texts, "a known text was embedded again"
    again = CountingEmbedder()
    with make(factory, "memq", embedder=again) as memory:
        memory.recall("task one")
        assert again.texts == 0, "opening a store forgot its vectors"


def test_recalls_never_write_values(factory: Factory) -> None:
    """Evaluation outcomes are recorded and learned by nobody."""
    with make(factory) as memory:
        memory.remember("task one", "body")
        before = values(memory)
        r = memory.recall("task one", is_test=True)
        assert memory.settle(r, 1.0) == [] and values(memory) == before
        assert memory.explain(r).to_dict()["outcomes"][0]["reward"] == 1.0


def credit_goes_to_what_was_shown_not_to_its_successor(factory: Factory) -> None:
    """A memory superseded between recall and settle: the old text was shown, the old text is credited."""
    with make(factory) as memory:
        old = memory.remember("task one", "old body")
        r = memory.recall("task one")
        new = memory.remember("task one", "new body", supersedes=old)
        assert [c.id for c in memory.settle(r, 1.0)] == [old]
        assert memory.get(new).n == 0 and memory.get(new).content_version == 2
        assert [p["content_version"] for p in memory.explain(r).to_dict()["pool"]] == [1]


def stages_and_objectives_have_values_of_their_own(factory: Factory) -> None:
    """Draft and refine learn apart, tests and style too."""
    with make(factory) as memory:
        a = memory.remember("task one", "body")
        for _ in range(5):
            memory.settle(memory.recall("task one", stage="refine"), 0.0)
        assert memory.recall("task one").items[0].value == 0.5
        assert memory.recall("task one", stage="refine").items[0].value < 0.1
        explained = memory.explain(a).to_dict()["values"]
        assert [(v["objective"], v["stage"], v["n"]) for v in explained] == [("success", "refine", 5)]


# ------------------------------------------------------------------------------------------------ values
def ema_values_are_exact(factory: Factory) -> None:
    """MemRL: ten successes from 0 at .3 give 1 - .7¹⁰."""
    with make(factory, preset("memrl", gate=-1.0, q_init=0.0), reward_range=(-1.0, 1.0)) as memory:
        a = memory.remember("task one", "body")
        for _ in range(10):
            memory.settle(memory.recall("task one"), 1.0)
        close_to(memory.get(a).value, 1 - 0.7**10)
        memory.settle(memory.recall("task one"), -1.0)
        close_to(memory.get(a).value, (1 - 0.7**10) * 0.7 - 0.3)


def provenance_credit_is_synchronous_and_counts_an_ancestor_once(factory: Factory) -> None:
    """MemQ on a diamond D → B, C → A: alpha .5, gamma 1, trace .5, reward 1."""
    policy = preset("memq", **OPEN, alpha=0.5, gamma=1.0, trace=0.5)
    for shown, expected in (("D", (0.05, 0.1, 0.1, 0.2)), ("DB", (0.25, 0.5, 0.1, 0.2))):
        with make(factory, policy, name=shown) as memory:
            a = memory.remember("key a", "A", value=0.0)
            b = memory.remember("key b", "B", value=0.2, parents=[a])
            c = memory.remember("key c", "C", value=0.4, parents=[a])
            d = memory.remember("key d", "D", value=0.6, parents=[b, c])
            before, ids = values(memory), {"A": a, "B": b, "C": c, "D": d}
            r = memory.recall("key d", k=4)
            memory.shown(r, [ids[x] for x in shown])
            memory.settle(r, 1.0)
            for id_, change in zip((a, b, c, d), expected, strict=True):
                close_to(values(memory)[id_] - before[id_], change, f"{shown}: {id_}")
            assert memory.rebuild_values() == 0


def hub_values_stay_in_bounds(factory: Factory) -> None:
    """An ancestor of many shown memories collects many changes; its value stays in the range of returns."""
    policy = preset("memq", **OPEN, k=8, alpha=0.5, gamma=0.5, trace=1.0)
    with make(factory, policy) as memory:
        hub = memory.remember("key hub", "hub")
        for i in range(8):
            memory.remember(f"key child {i}", f"child {i}", parents=[hub])
        for _ in range(30):
            memory.settle(memory.recall("key child"), 1.0)
        assert -1e-9 <= memory.get(hub).value <= 2.0 + 1e-9, memory.get(hub).value


def a_new_memory_is_not_credited_by_its_own_outcome(factory: Factory) -> None:
    """The child's value enters the target; its own value stays. A merged child is no consequence of itself."""
    policy = preset("memq", **OPEN, alpha=0.3, gamma=0.5, trace=0.9)
    with make(factory, policy) as memory:
        a = memory.remember("key a", "A", value=0.5)
        r = memory.recall("key a")
        child = memory.remember("key n", "N", value=0.5, parents=r)
        memory.settle(r, 1.0, child=child)
        close_to(memory.get(a).value, 0.725)
        assert memory.get(child).n == 0 and memory.get(child).value == 0.5
        r = memory.recall("key a", k=1)
        merged = memory.remember("key a", "A", parents=r)
        assert merged == a
        memory.settle(r, 0.0, child=merged)
        close_to(memory.get(a).value, 0.725 * 0.7)


def values_are_the_sum_of_their_events(factory: Factory) -> None:
    """Rebuilding changes nothing, and a receipt's values can be had again at any later time."""
    for name in ("memrl", "memq", "memlift"):
        with make(factory, name, name=name) as memory:
            rng, seen = np.random.default_rng(0), []
            for t in range(60):
                r = memory.recall(f"task {t % 7}")
                seen.append((r, {i["id"]: i["q"] for i in memory.explain(r).to_dict()["pool"]}))
                memory.settle(r, float(rng.integers(2)), action="body 3")
                if t % 3 == 0:
                    memory.remember(f"task {t % 7} {t}", f"body {t}", parents=r, source=f"s{t % 2}")
            assert memory.rebuild_values() == 0, f"{name}: values differ from their events"
            for r, q in seen:
                then = memory.values_as_of(r)
                assert all(then[i] == q[i] for i in q), f"{name}: values as of {r.id}"


def many_outcomes_settle_as_one_after_the_other(factory: Factory) -> None:
    """Receipts that share memories, repeats, jobs and children in one call: the same answers and values; or nothing."""
    for name in ("memrl", "memq", "memlift"):
        found = []
        for way in ("loop", "many"):
            with make(factory, name, name=f"{name}-{way}") as memory:
                rows = []
                for t in range(24):
                    r = memory.recall(f"task {t % 5}", is_test=t % 11 == 10, stage="draft" if t % 7 == 6 else "solve")
                    new = memory.remember(f"task {t % 5} {t}", f"body {t}", parents=r, polarity="success")
                    row = {"recalled": r, "reward": float(t % 3 > 0), "action": "body 3 or another"}
                    row |= [{}, {"child": new}, {"idempotency_key": f"job {t % 4}"}, {"objective": "speed"}][t % 4]
                    rows += [{"recalled": r.id, "reward": None, "valid": False}] * (t % 5 == 4)
                    rows += [row] * (1 + (t % 6 == 5))
                with refused("a batch with a receipt that nobody knows"):
                    memory.settle_many([*rows, {"recalled": "r999", "reward": 1.0}])
                with refused("a batch with a reward out of range"):
                    memory.settle_many([*rows, {**rows[0], "reward": 2.0}])
                with refused("a batch with an argument that settle does not have"):
                    memory.settle_many([*rows, {**rows[0], "score": 1.0}])
                got = memory.settle_many(rows) if way == "many" else [memory.settle(**row) for row in rows]
                again = memory.settle_many(rows)
                assert [c for c, row in zip(again, rows, strict=True) if row.get("valid", True)] == [
                    c for c, row in zip(got, rows, strict=True) if row.get("valid", True)
                ], f"{name}, {way}: settled twice"
                assert memory.rebuild_values() == 0 and verify(memory) == [], f"{name}, {way}"
                found.append((got, values(memory), memory.health()["settled"]))
        assert found[0] == found[1], f"{name}: many at once are not as one after the other"
