"""What is trained on is what was sampled: rows, units, credit, what is left out, portions."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, ModelError
from evolvent.core.ledger import Ledger
from evolvent.learn.tokens.batch import micro_batches, token_batch

CONTEXTS = [[1, 2], [1, 2, 9], [4]]
TOKENS = [[5, 6, 7], [8], [5, 5]]


def episode(name, *, agents=("a", "b", "a"), valid=True, finish=None, truncated=False, group="g", notes=True):
    ep = Episode("task", id=name, group=group)
    for agent, context, tokens, how in zip(agents, CONTEXTS, TOKENS, finish or ("", "", ""), strict=True):
        ep.observe("seen", token_ids=context, parent=-1)
        logp = [-0.5 * k for k in range(1, len(tokens) + 1)]
        ep.act("act", agent=agent, token_ids=tokens, logp=logp, choices=[tokens, [3, 3]], finish=how)
    ep.end(terminated=not truncated, truncated=truncated, valid=valid)
    if notes:
        ep.note("entropy", np.arange(6))
    return ep


def step_credit(episodes, values):
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", values)
    return ledger


def echo(rows):
    """A judge that says which token it was asked about: ``[K]``."""
    flat = np.concatenate([row.tokens for row in rows]).astype(np.float32)
    return SimpleNamespace(logp_K=torch.from_numpy(-flat), entropy_K=torch.from_numpy(10 * flat))


def test_rows_are_the_tokens_of_the_record():
    episodes = [episode("x"), episode("y")]
    batch = token_batch(episodes, step_credit(episodes, [1, 2, 3, 4, 5, 6]), level="step")
    assert [row.context.tolist() for row in batch.rows] == CONTEXTS * 2
    assert [row.tokens.tolist() for row in batch.rows] == TOKENS * 2
    assert all(row.choices == () for row in batch.rows)
    u = batch.units
    assert u.row.tolist() == [0, 0, 0, 1, 2, 2, 3, 3, 3, 4, 5, 5]
    assert u.at.tolist() == [0, 1, 2, 0, 0, 1] * 2
    assert u.step.tolist() == [0, 0, 0, 1, 2, 2] * 2
    assert u.trajectory.tolist() == [0] * 6 + [1] * 6
    assert u.group.tolist() == [0] * 12
    assert [batch.agents[i] for i in u.agent] == list("aaabaa") * 2
    # a step's credit goes to each of its tokens undivided
    assert u.adv.tolist() == [1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 6]
    assert u.old_logp.tolist() == [-0.5, -1, -1.5, -0.5, -0.5, -1] * 2
    assert u.entropy.tolist() == [0, 1, 2, 3, 4, 5] * 2


def test_no_credit_is_not_there_and_zero_credit_is():
    ep = [episode("x")]
    ledger = Ledger.for_episodes(ep)
    ledger.set("token", [0.0, np.nan, 2.0, np.nan, 0.0, 0.0])
    batch = token_batch(ep, ledger, level="token")
    assert [row.tokens.tolist() for row in batch.rows] == [[5, 6, 7], [5, 5]]
    assert batch.units.adv.tolist() == [0, 2, 0, 0]
    assert batch.units.at.tolist() == [0, 2, 0, 1]
    assert batch.sampled == 6
    logp, entropy = batch.logprobs(echo)
    assert logp.tolist() == [-5, -7, -5, -5] and entropy.tolist() == [50, 70, 50, 50]


def test_credit_of_agents_and_rows_of_one():
    ep = [episode("x")]
    ledger = Ledger.for_episodes(ep)
    ledger.set("agent", [7.0, -1.0])
    batch = token_batch(ep, ledger, level="agent")
    assert batch.units.adv.tolist() == [7, 7, 7, -1, 7, 7]
    mine = batch.of_agent("b")
    assert [row.tokens.tolist() for row in mine.rows] == [[8]] and mine.units.adv.tolist() == [-1]
    with pytest.raises(BadInput, match="no such agent"):
        batch.of_agent("c")


def test_episodes_that_are_not_valid_are_left_out():
    episodes = [episode("x", valid=False), episode("y", group="h")]
    batch = token_batch(episodes, step_credit(episodes, 1.0), level="step")
    assert batch.units.trajectory.tolist() == [1] * 6
    assert batch.sampled == 12


def test_whole_actions_are_one_unit_each():
    ep = episode("x")
    batch = token_batch([ep], step_credit([ep], [1, np.nan, 3]), level="step", unit="action")
    assert batch.sizes == (1, 1) and batch.units.adv.tolist() == [1, 3] and batch.units.at.tolist() == [0, 0]
    assert [[c.tolist() for c in row.choices] for row in batch.rows] == [[[5, 6, 7], [3, 3]], [[5, 5], [3, 3]]]
    assert batch.units.old_logp.tolist() == [-3.0, -1.5]  # without the note: the sum over its tokens
    ep.note("action_logp", [-0.1] * 3 + [-0.2] + [-0.3] * 2)
    noted = token_batch([ep], step_credit([ep], 1.0), level="step", unit="action")
    assert noted.units.old_logp.tolist() == pytest.approx([-0.1, -0.2, -0.3])
    assert noted.units.entropy is None
    with pytest.raises(ModelError, match="log-probabilities do not fit"):
        noted.logprobs(echo)


def test_rows_carry_the_allowed_actions_where_tokens_are_judged_among_them():
    ep = [episode("x")]
    batch = token_batch(ep, step_credit(ep, 1.0), level="step", constrained=True)
    assert [[c.tolist() for c in row.choices] for row in batch.rows][1] == [[8], [3, 3]]


@pytest.mark.parametrize(
    ("how", "kept"),
    [("count", [0] * 6 + [1] * 6), ("leave_out", [0] * 5 + [1] * 6), ("leave_out_episode", [])],
)
def test_truncated_completions(how, kept):
    episodes = [
        episode("x", finish=["stop", "length", "stop"]),
        episode("y", finish=["stop"] * 3, truncated=True),
    ]
    batch = token_batch(episodes, step_credit(episodes, 1.0), level="step", truncated=how)
    assert batch.units.trajectory.tolist() == kept


def test_bad_input():
    ep = episode("x")
    ledger = step_credit([ep], 1.0)
    with pytest.raises(BadInput, match="other episodes"):
        token_batch([episode("y")], ledger, level="step")
    with pytest.raises(BadInput, match="unknown unit or level"):
        token_batch([ep], ledger, level="memory")
    with pytest.raises(BadInput, match="no credit per token"):
        token_batch([ep], ledger, level="token", unit="action")
    with pytest.raises(BadInput, match="finish="):
        token_batch([ep], ledger, level="step", truncated="leave_out")
    with pytest.raises(BadInput, match="count, leave_out"):
        token_batch([ep], ledger, level="step", truncated="drop")
    mute = Episode("task", id="mute")
    mute.observe("seen")
    mute.act("act")
    mute.end(terminated=True)
    with pytest.raises(BadInput, match="credit but no tokens"):
        token_batch([mute], step_credit([mute], 1.0), level="step")
    assert len(token_batch([mute], Ledger.for_episodes([mute]), level="step").units) == 0


def test_selecting_rows_takes_their_units_along():
    episodes = [episode("x"), episode("y")]
    batch = token_batch(episodes, step_credit(episodes, [1, 2, 3, 4, 5, 6]), level="step")
    part = batch.select([4, 0])
    assert [row.tokens.tolist() for row in part.rows] == [[8], [5, 6, 7]]
    assert part.units.adv.tolist() == [5, 1, 1, 1] and part.units.row.tolist() == [0, 1, 1, 1]
    assert part.where().tolist() == [0, 1, 2, 3]
    assert part.logprobs(echo)[0].tolist() == [-8, -5, -6, -7]


def test_looking_up_gives_the_same_in_portions():
    episodes = [episode("x", notes=False), episode("y")]
    batch = token_batch(episodes, step_credit(episodes, 1.0), level="step")
    assert batch.units.entropy is None  # not known for all
    for size in (1, 5, 1000):
        seen = batch.with_reference(echo, size).with_old(echo, size).units
        assert seen.ref_logp.tolist() == [-5, -6, -7, -8, -5, -5] * 2 == seen.old_logp.tolist()
        assert seen.entropy.tolist() == [50, 60, 70, 80, 50, 50] * 2


def test_portions_cover_every_row_once_within_the_budget():
    episodes = [episode(str(i)) for i in range(4)]
    batch = token_batch(episodes, step_credit(episodes, 1.0), level="step")
    for budget in (1, 6, 9, 14, 10_000):
        portions = micro_batches(batch, range(12), budget)
        assert sorted(i for portion in portions for i in portion) == list(range(12))
        for portion in portions:
            contexts = {batch.rows[i].context.tobytes(): len(batch.rows[i].context) for i in portion}
            words = {(batch.rows[i].context.tobytes(), batch.rows[i].tokens.tobytes()) for i in portion}
            cost = sum(contexts.values()) + sum(len(tokens) // 4 for _, tokens in words)
            assert cost <= budget or len(words) == 1
    # what all four share, situation and words, is paid for once: 2 + 3 tokens
    assert micro_batches(batch, [0, 1, 3, 6, 9], 5)[0] == [0, 3, 6, 9]


def test_a_situation_that_comes_back_is_judged_once_whatever_was_chosen_there():
    here, there = [np.array(ids, np.int32) for ids in ([1, 2, 3], [1, 2, 4])]
    words = tuple(np.array(ids, np.int32) for ids in ([5, 6], [7], [8, 9]))
    rows = [(here, words[0]), (there, words[0]), (here, words[1]), (there, words[2]), (here, words[0])]
    e = Episode("task", group="g")
    for context, said in rows:
        e.observe("seen", token_ids=context, parent=-1)
        e.act("said", token_ids=said, logp=np.full(len(said), -1.0), choices=words)
        e.add_reward(0.0)
    e.note("action_logp", np.concatenate([np.full(len(said), -1.0) for _, said in rows]))
    e.end(terminated=True)
    batch = token_batch([e], step_credit([e], 1.0), level="step", unit="action")
    assert micro_batches(batch, range(5), 8) == [[0, 2, 4], [1, 3]]
