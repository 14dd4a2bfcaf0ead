"""The record: building, reading, and what it refuses."""

import json

import numpy as np
import pytest

from evolvent.core.episode import Episode, MemoryUse
from evolvent.core.errors import BadInput


def sample() -> Episode:
    ep = Episode("flights-17", env="analyst", seed=4, group="g", meta={"kind": ("a", 1)}, id="e1")
    ep.observe("How many flights were late?")
    ep.recall("r1", ["m3", "m1"], omitted=["m7"], propensity={"m3": 0.9, "m7": 0.8})
    ep.component("planner")
    ep.act("SELECT 1", agent="writer", token_ids=[5, 6, 7], logp=[-0.1, -0.2, -0.3])
    ep.tool("sql", {"query": "SELECT 1", "limit": 5}, "1", agent="writer")
    ep.recall("r2", ["m1"])
    ep.component("planner")
    ep.component("critic")
    ep.act("ok", agent="critic", token_ids=np.array([9]), reward=0.25)
    ep.act("done", agent="writer")
    ep.add_reward(1.0)
    ep.end(terminated=True, success=True, source="tests")
    return ep


def test_reads_back_what_was_recorded():
    ep = sample()
    assert (ep.n_steps, ep.n_tokens, ep.n_nodes) == (3, 4, 10)
    assert ep.agents_T == ["writer", "critic", "writer"]
    assert ep.rewards_T.tolist() == [0.0, 0.25, 1.0] and ep.rewards_T.dtype == np.float64
    assert ep.total_reward == 1.25
    assert ep.token_ids.tolist() == [5, 6, 7, 9] and ep.token_ids.dtype == np.int32
    assert ep.token_step.tolist() == [0, 0, 0, 1] and ep.token_step.dtype == np.int32
    assert ep.logp.dtype == np.float32 and np.isnan(ep.logp[3])  # the endpoint gave none: unknown, not certain
    assert ep.tokens_per_step_T.tolist() == [3, 1, 0]
    assert ep.components == ["planner", "critic"]
    assert ep.shown_memories == ["m3", "m1"]
    assert ep.meta == {"kind": ["a", 1]}
    assert (ep.terminated, ep.truncated, ep.success, ep.valid, ep.source) == (True, False, True, True, "tests")


def test_a_memory_use_points_at_the_first_decision_it_could_influence():
    assert sample().memory_uses == [
        MemoryUse("r1", "m3", 0, True, 0.9),
        MemoryUse("r1", "m1", 0, True, None),
        MemoryUse("r1", "m7", 0, False, 0.8),
        MemoryUse("r2", "m1", 1, True, None),
    ]


def test_the_record_is_a_graph():
    ep = Episode("t")
    root = ep.observe("q")
    left = ep.act("a", parent=root)
    right = ep.act("b", parent=root)
    leaf = ep.observe("after a", parent=left)
    other = ep.observe("another root", parent=-1)
    assert ep.branch(leaf) == [root, left, leaf]
    assert ep.branch(right) == [root, right]
    assert ep.branch(other) == [other]
    assert [n.step for n in ep.nodes] == [None, 0, 1, None, None]
    ep.add_reward(0.5, left)
    assert ep.rewards_T.tolist() == [0.5, 0.0]


def test_a_reward_may_come_after_the_end():
    ep = sample()
    ep.add_reward(0.5)
    assert ep.rewards_T.tolist() == [0.0, 0.25, 1.5]


def test_success_is_three_valued():
    ep = Episode("t")
    assert ep.success is None
    ep.end(truncated=True)
    assert ep.success is None and ep.truncated and not ep.terminated


def test_an_empty_episode_reads_as_empty_arrays():
    ep = Episode("t")
    assert ep.rewards_T.shape == ep.token_ids.shape == ep.logp.shape == ep.token_step.shape == (0,)
    assert ep.total_reward == 0.0 and list(ep.nodes) == [] and ep.memory_uses == []


def test_the_dictionary_is_strict_json():
    ep = sample()
    assert Episode.from_dict(json.loads(json.dumps(ep.to_dict(), allow_nan=False))) == ep


def test_equality_sees_every_column():
    assert sample() == sample()
    assert sample() != Episode("flights-17")
    other = sample()
    other.add_reward(1e-9)
    assert other != sample()


def test_reading_gives_copies():
    ep = sample()
    ep.rewards_T[:] = 7.0
    ep.token_ids[:] = 7
    assert ep == sample()


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        (lambda ep: ep.act("x", reward=float("nan")), "reward is not finite"),
        (lambda ep: ep.act("x", token_ids=[1, 2], logp=[-0.5]), "differ in length"),
        (lambda ep: ep.act("x", logp=[-0.5]), "differ in length|not int32"),
        (lambda ep: ep.act("x", token_ids=[1], logp=[0.5]), "log-probability is positive"),
        (lambda ep: ep.act("x", token_ids=[0.5]), "not int32"),
        (lambda ep: ep.act("x", token_ids=[2**40]), "not int32"),
        (lambda ep: ep.act("x", token_ids=[[1]]), "not int32"),
        (lambda ep: ep.act("x", parent=5), "no such node"),
        (lambda ep: ep.observe(None), "not a string"),
        (lambda ep: ep.tool("t", {"x": json.loads("[" * 500 + "]" * 500)}, ""), "nested too deep"),
        (lambda ep: ep.add_reward(1.0), "no decision"),
        (lambda ep: ep.recall("r", ["m1", "m1"]), "stands twice"),
        (lambda ep: ep.recall("r", ["m1"], omitted=["m1"]), "stands twice"),
        (lambda ep: ep.recall("r", ["m1"], propensity={"m1": 0.0}), "propensity"),
        (lambda ep: ep.recall("r", ["m1"], propensity={"m1": float("nan")}), "propensity"),
        (lambda ep: ep.recall("r", ["m1"], propensity={"m2": 0.5}), "propensity"),
        (lambda ep: ep.tool("f", {"x": object()}, ""), "cannot be written as JSON"),
        (lambda ep: ep.tool("f", {1: 2}, ""), "key is not a string"),
        (lambda ep: ep.branch(3), "no such node"),
    ],
)
def test_refuses(verb, message):
    ep = Episode("t")
    with pytest.raises(BadInput, match=message):
        verb(ep)
    assert ep.n_nodes == 0 and ep.n_tokens == 0  # a refused verb leaves nothing behind


def test_refuses_to_grow_after_the_end_or_to_end_twice():
    ep = sample()
    with pytest.raises(BadInput, match="after the end"):
        ep.observe("more")
    with pytest.raises(BadInput, match="ended twice"):
        ep.end()


def test_refuses_a_reward_for_what_is_not_a_decision():
    with pytest.raises(BadInput, match="not a decision"):
        sample().add_reward(1.0, node=0)


def test_refuses_another_schema():
    for schema, says in ((3, "newer version of evolvent: schema 3, this one reads up to 2"), ("x", "no episode")):
        with pytest.raises(BadInput, match=says):
            Episode.from_dict(sample().to_dict() | {"schema": schema})


def test_the_context_of_a_decision_is_the_tokens_on_its_branch():
    ep = Episode("task")
    first = ep.observe("question", token_ids=[1, 2])
    act = ep.act("call", token_ids=[3], logp=[-0.5])
    ep.observe("result", token_ids=[4, 5])
    ep.act("answer", token_ids=[6, 7], logp=[-0.1, -0.2])
    ep.act("another answer", token_ids=[8], parent=first)
    ep.observe("a new beginning", token_ids=[9], parent=-1)
    ep.act("x", token_ids=[10])
    assert [ep.context_ids(t).tolist() for t in range(4)] == [[1, 2], [1, 2, 3, 4, 5], [1, 2], [9]]
    assert ep.seen_ids.tolist() == [1, 2, 4, 5, 9] and act == 1


class Counting(Episode):
    """Counts the tokens that are read to make a context."""

    read = 0

    def _own_tokens(self, node):
        ids = super()._own_tokens(node)
        self.read += 1 + len(ids)
        return ids


def test_an_attempt_reads_every_token_of_its_context_once():
    """Of 400 turns as of one: what a turn costs does not grow with those before it."""
    ep, seen, ids = Counting("task"), [], []
    for turn in range(400):
        node = ep.observe("seen", token_ids=[turn, turn])
        before = ep.tokens_to(node)
        ids += [turn, turn]
        seen.append((before, list(ids)))
        ep.act("said", token_ids=[-turn, 7, 7])
        ids += [-turn, 7, 7]
    assert ep.read <= ep.n_nodes + len(ep.seen_ids) + ep.n_tokens
    assert all(context.tolist() == known for context, known in seen), "what was handed out stays as it was"
    assert [ep.context_ids(t).tolist() for t in range(400)] == [known for _, known in seen]
    assert ep.read <= ep.n_nodes + len(ep.seen_ids) + ep.n_tokens, "a node on the way costs nothing"
    with pytest.raises(ValueError, match="read-only"):
        ep.context_ids(3)[0] = 1


def test_ways_that_part_share_their_beginning():
    ep = Counting("task")
    root = ep.observe("seen", token_ids=[1] * 1000)
    left, right = (ep.act(name, token_ids=[n], parent=root) for n, name in enumerate(("left", "right")))
    ways = [ep.tokens_to(left), ep.tokens_to(right), ep.tokens_to(left)]
    assert [way[-1] for way in ways] == [0, 1, 0] and all(len(way) == 1001 for way in ways)
    assert ep.read == 1001 + 3 + 3


def test_choices_and_notes_are_checked():
    ep = Episode("task")
    ep.act("go", token_ids=[1, 2], choices=[[1, 2], [3]])
    with pytest.raises(BadInput, match="not among its choices"):
        ep.act("go", token_ids=[1], choices=[[1, 2], [3]])
    with pytest.raises(BadInput, match="one number for every token"):
        ep.note("value", [0.0])
    ep.note("value", [0.5, 1.0])
    assert ep.choices(0) == [[1, 2], [3]]
    assert ep.notes["value"].tolist() == [0.5, 1.0]


def test_usage_is_known_of_all_decisions_or_not_at_all():
    ep = Episode("t")
    first = ep.act("a")
    ep.act("b")
    ep.spend(prompt=30, cached=0, completion=2, seconds=0.5, cost_usd=None)
    assert ep.usage == dict.fromkeys(("prompt", "cached", "completion", "seconds", "cost_usd"))
    ep.spend(first, prompt=10, completion=3)
    assert ep.usage == {"prompt": 40, "cached": None, "completion": 5, "seconds": None, "cost_usd": None}
    for wrong in ({"prompt": -1}, {"watts": 1}, {"seconds": float("nan")}):
        with pytest.raises(BadInput):
            ep.spend(first, **wrong)
    with pytest.raises(BadInput, match="not a decision"):
        ep.spend(7, prompt=1)
