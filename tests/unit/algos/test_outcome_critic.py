"""The critic of outcomes: what it notes is the softmax behind the token, and it learns to tell outcomes apart."""

# pyright: reportCallIssue=false

import copy

import numpy as np
import pytest
import torch

from evolvent.algos.policy_gradient.foreseen import OutcomeCritic, outcome_of
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.reward_kinds import keep_reward
from evolvent.credit import step_graded_outcome, token_outcome_critic

OUTCOMES = {"broken": (0, 0, 0), "error": (1, 0, 0), "wrong": (1, 1, 0), "right": (1, 1, 1)}


def attempt(outcome, tokens=(1, 2), group="g", valid=True, notes=None):
    e = Episode("t", group=group, id=f"{outcome}{tokens}")
    e.observe("ask", token_ids=[7], parent=-1)
    e.act("x", token_ids=list(tokens), logp=[-0.5] * len(tokens), reward=float(outcome == "right"))
    e.end(terminated=True, success=outcome == "right", valid=valid)
    for kind, value in zip(("compiles", "runs", "correct"), OUTCOMES[outcome], strict=True):
        keep_reward(e, kind, [float(value)])
    if notes is not None:
        e.note("outcome_p", notes)
    return e


def last_token(rows):
    """States that know the token before them and nothing else."""
    before = [np.concatenate([row.context[-1:], row.tokens[:-1]]) for row in rows]
    return torch.nn.functional.one_hot(torch.as_tensor(np.concatenate(before)).long(), 10).float()


def critic(**more):
    return OutcomeCritic(last_token, 10, **({"context": 64, "lr": 0.01} | more))


def test_the_note_is_the_probability_of_the_outcome_that_came():
    one = critic()
    with torch.no_grad():
        one.head[2].weight.zero_()
        one.head[2].bias.copy_(torch.log(torch.tensor([0.1, 0.2, 0.3, 0.4])))
    batch = [attempt(name) for name in OUTCOMES] + [attempt("right", valid=False)]
    seen = one.note(batch)
    for e, p in zip(batch[:4], (0.1, 0.2, 0.3, 0.4), strict=True):
        assert e.notes["outcome_p"].tolist() == pytest.approx([p, p])
    assert seen.outcome_K.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, -1, -1]
    # behind the token, not before it: the second row of each attempt is that of its token 2
    assert seen.features_KD.argmax(1).tolist() == [1, 2] * 5


def test_it_learns_which_token_gives_the_outcome_away():
    one, generator = critic(), torch.Generator().manual_seed(0)
    batch = [attempt("broken", (1, 3)), attempt("right", (2, 3)), attempt("error", (4, 3)), attempt("wrong", (5, 3))]
    before = one.learn(one.note(batch), epochs=1, minibatches=1, grad_clip=1.0, generator=generator)
    after = one.learn(one.note(batch), epochs=300, minibatches=2, grad_clip=1.0, generator=generator)
    assert after["outcome_loss"] < 0.75 * before["outcome_loss"]  # the shared token tells nothing
    one.note(batch)
    result, shared = zip(*(e.notes["outcome_p"].tolist() for e in batch), strict=True)
    assert min(result) > 0.9 and max(shared) < 0.5
    last = one.learn(one.note(batch), epochs=1, minibatches=1, grad_clip=1.0, generator=generator)
    assert last["outcome_right"] >= 0.5


def test_it_learns_nothing_of_an_attempt_that_is_not_valid_and_cuts_long_situations():
    one, rows = critic(context=4), []
    one._features = lambda some: rows.extend(some) or last_token(some)
    e = Episode("t", group="g")
    e.observe("ask", token_ids=[1, 2, 3, 4, 5, 6], parent=-1)
    e.act("x", token_ids=[7, 8], logp=[0.0, 0.0])
    e.end(terminated=True, valid=False)
    seen = one.note([e])
    assert [len(row.context) + len(row.tokens) for row in rows] == [4] and rows[0].context.tolist() == [6]
    generator = torch.Generator().manual_seed(0)
    metrics = one.learn(seen, epochs=2, minibatches=1, grad_clip=1.0, generator=generator)
    assert metrics == {"outcome_loss": 0.0, "outcome_right": 0.0}


def test_a_critic_goes_on_where_it_stopped():
    batch = [attempt("broken", (1, 3)), attempt("right", (2, 3))]
    one, other = critic(seed=1), critic(seed=2)
    for _ in range(2):
        one.learn(one.note(batch), epochs=2, minibatches=1, grad_clip=1.0, generator=torch.Generator().manual_seed(0))
        other.load_state_dict(copy.deepcopy(one.state_dict()))
    losses = [
        c.learn(c.note(batch), epochs=2, minibatches=1, grad_clip=1.0, generator=torch.Generator().manual_seed(5))
        for c in (one, other)
    ]
    assert losses[0] == losses[1]


# ------------------------------------------------------------------------------------------------ the rule
def test_the_rule_is_the_relative_return_times_the_critic():
    # against an attempt that fails a test (-0.3), as in the paper: -0.7, -0.3, 0, 1.3
    for outcome, relative in zip(OUTCOMES, (-0.7, -0.3, 0.0, 1.3), strict=True):
        pair = [attempt(outcome, notes=[0.5, 0.25]), attempt("wrong", (3,), notes=[1.0])]
        adv = token_outcome_critic.assign(pair).values("token")
        assert adv.tolist() == pytest.approx([0.5 * relative, 0.25 * relative, -relative])


def test_with_a_sure_critic_it_is_the_graded_outcome():
    batch = [attempt(name, (1, 2, 3), notes=[1.0] * 3) for name in OUTCOMES] + [attempt("right", valid=False)]
    adv = token_outcome_critic.assign(batch)
    step = step_graded_outcome.assign(batch).values("step")
    assert np.array_equal(adv.values("token"), step[adv.parent_index("token", "step")], equal_nan=True)


def test_what_is_missing_is_said():
    with pytest.raises(BadInput, match="no 'outcome_p'"):
        token_outcome_critic.assign([attempt("right"), attempt("wrong")])
    bare = Episode("t", group="g")
    bare.observe("ask", token_ids=[7], parent=-1)
    bare.act("x", token_ids=[1], logp=[0.0])
    bare.end(terminated=True)
    with pytest.raises(BadInput, match="compiles"):
        outcome_of(bare)
