"""Attempts that share a beginning: stored once, read one by one, paid once."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import close, episodes, rewards, trees

from evolvent.core.branches import Branch, branches, graft, linear, trees_of
from evolvent.core.codec import decode_episode, encode_episode
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import keep_reward, reward_kinds

quick = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(trees())
def test_a_tree_round_trips_and_its_attempts_are_those_of_its_nodes(tree):
    line = encode_episode(tree)
    again = decode_episode(line)
    assert again == tree and encode_episode(again) == line
    rows, seen = tree.to_dict()["nodes"], set()
    for number, one in enumerate(branches(tree)):
        nodes = tree.attempt_nodes(number)
        place = {node: i for i, node in enumerate(nodes)} | {-1: -1}
        assert one.to_dict()["nodes"] == [{**rows[n], "parent": place[rows[n]["parent"]]} for n in nodes]
        for t, step in enumerate(getattr(one, "steps", range(one.n_steps))):
            assert one.context_ids(t).tolist() == tree.context_ids(int(step)).tolist()
        data = json.loads(encode_episode(one))["ends"][0]
        mine = json.loads(line)["ends"][number]
        assert {k: data[k] for k in ("success", "valid", "source")} == {
            k: mine[k] for k in ("success", "valid", "source")
        }
        assert decode_episode(encode_episode(one)) == one
        seen |= set(nodes)
    assert seen == set(range(tree.n_nodes)) and tree.total_reward == branches(tree)[0].total_reward


def test_an_attempt_alone_is_itself():
    ep = Episode("t")
    ep.act("x")
    ep.end()
    assert branches(ep) == [ep] and branches(ep)[0] is ep and trees_of([ep, ep]) == [ep]


@st.composite
def repeats(draw):
    """Attempts of two to four decisions, the later ones repeating the beginning of an earlier one."""
    made: list[tuple[Episode, int, int]] = []
    for number in range(draw(st.integers(2, 4))):
        of = draw(st.integers(0, number - 1)) if number else 0
        before = made[of][0] if number else None
        steps = draw(st.integers(1, before.n_steps - 1)) if before else 0
        ep = Episode("t", group="g", seed=number, id=str(number))
        acts = [n for n in before.nodes if n.step is not None][:steps] if before else []
        for t in range(max(steps + 1, draw(st.integers(2, 4)))):
            ep.recall(f"r{t}", ["m1"] if t % 2 else ["m2"])
            ep.observe(f"turn {t}", token_ids=[t], parent=-1 if t % 2 else None)
            if t < steps:
                ep.act(acts[t].text, agent=acts[t].agent, token_ids=before.step_tokens(t), reward=before.rewards_T[t])
            else:
                ids = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
                ep.act(f"{number}.{t}", agent=draw(st.sampled_from("ab")), token_ids=ids, reward=draw(rewards))
        shared = int(before.tokens_per_step_T[:steps].sum()) if before else 0
        value = np.arange(ep.n_tokens) + 100 * number
        ep.note("value", np.concatenate([before.notes["value"][:shared] if before else [], value[shared:]]))
        kept = before.rewards_by_kind["format"][:steps] if before else []
        keep_reward(ep, "format", [*kept, *range(ep.n_steps - steps)])
        keep_reward(ep, "thrift", float(number))
        close(draw, ep)
        made.append((ep, of, steps))
    return made


def grafted(made):
    tree = Episode.from_dict(made[0][0].to_dict())
    for number, (ep, of, steps) in enumerate(made[1:], start=1):
        assert graft(tree, Episode.from_dict(ep.to_dict()), of=of, steps=steps) == number
    return tree


@quick
@given(repeats())
def test_what_was_grafted_reads_as_it_was(made):
    tree = grafted(made)
    shared = sum(ep.tokens_per_step_T[:steps].sum() for ep, _, steps in made)
    assert tree.n_tokens == sum(ep.n_tokens for ep, _, _ in made) - shared, "what is shared stands once"
    for one, (ep, _, _) in zip(branches(decode_episode(encode_episode(tree))), made, strict=True):
        one.id = ep.id
        assert one == ep and reward_kinds(one) == reward_kinds(ep)


@quick
@given(repeats(), st.data())
def test_what_several_attempts_share_is_paid_once(made, data):
    """The total over the tree is what the attempts were paid, every unit by one over those it is paid in."""
    tree = grafted(made)
    alone = Episode("another")
    alone.act("x", token_ids=[5])
    attempts = [*branches(tree), alone]
    for level in ("token", "step", "agent", "memory"):
        ledger = Ledger.for_episodes(attempts)
        n = ledger.size(level)
        values = data.draw(st.lists(st.floats(-9, 9) | st.none(), min_size=n, max_size=n))
        ledger.set(level, np.array(values, dtype=float))
        once = ledger.over_trees(level)
        assert once.episodes == (tree, alone)
        paid: dict[tuple[int, object], list[float]] = {}
        for at, value in ledger.entries(level):
            one = attempts[at.episode]
            inside = {"token": "tokens", "step": "steps"}.get(level)
            unit = getattr(one, inside)[at.unit] if inside and isinstance(one, Branch) else at.unit
            paid.setdefault((one is alone, unit), []).extend([] if value is None else [value])
        got = {(at.episode == 1, at.unit): value for at, value in once.entries(level)}
        assert got == {key: pytest.approx(np.mean(rewards)) if rewards else None for key, rewards in paid.items()}
        weights = {key: 1 / max(1, len(rewards)) for key, rewards in paid.items()}
        assert once.total(level) == pytest.approx(
            sum(weights[k] * sum(rewards) for k, rewards in paid.items()), abs=1e-9
        )


@quick
@given(st.lists(episodes(), max_size=3))
def test_without_branches_a_ledger_over_trees_is_the_ledger(group):
    group = [e for e in group if len(e.ends) == 1]
    ledger = Ledger.for_episodes(group)
    ledger.set("step", np.arange(ledger.size("step")))
    assert ledger.over_trees("step").values("step").tolist() == ledger.values("step").tolist()


def test_what_has_no_unit_stays_with_the_record():
    tree = grafted_pair()
    ledger = Ledger.for_episodes(branches(tree))
    ledger.set("step", 1.0)
    ledger.project("step", "component")
    assert ledger.over_trees("component").unassigned("component").tolist() == [ledger.total("step")]


def grafted_pair():
    tree = Episode("t")
    for name in "ab":
        tree.act(name, token_ids=[1], reward=1.0)
    tree.end(success=True)
    tree.fork(0, seed=7)
    tree.act("c", token_ids=[2], reward=5.0)
    tree.end(success=False)
    return tree


def test_a_branch_ends_and_is_noted_in_its_tree():
    tree = grafted_pair()
    first, second = branches(tree)
    assert (first.total_reward, second.total_reward, tree.total_reward) == (2.0, 6.0, 2.0)
    assert (first.success, second.success, tree.success, second.seed) == (True, False, True, 7)
    second.final_value = 0.5
    second.note("value", [1.0, 2.0])
    assert tree.ends[1].final_value == 0.5
    assert tree.notes["value"].tolist() == pytest.approx([1.0, np.nan, 2.0], nan_ok=True)


def test_bad_input():
    tree = grafted_pair()
    with pytest.raises(BadInput, match="scored one by one"):
        Ledger.for_episodes([tree])
    assert len(linear([tree])) == 2
    with pytest.raises(BadInput, match="nothing to part from"):
        tree.fork(2)
    tree.fork(0)
    with pytest.raises(BadInput, match="belongs to another attempt"):
        tree.act("x", parent=1)
    assert tree.n_nodes == 3
    with pytest.raises(BadInput, match="has not ended"):
        tree.to_dict()
    with pytest.raises(BadInput, match="has not ended"):
        tree.fork(0)
    other = Episode("t")
    for name in "ax":
        other.act(name, token_ids=[1])
    other.end()
    with pytest.raises(BadInput, match="does not repeat the other"):
        graft(grafted_pair(), other, of=0, steps=1)
    with pytest.raises(BadInput, match="nothing to share"):
        graft(grafted_pair(), other, of=0, steps=2)
