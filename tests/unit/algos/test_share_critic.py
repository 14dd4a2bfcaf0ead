"""The critic of shares: it notes both sides of a token, and learns which token spoils a program."""

# pyright: reportCallIssue=false

import copy

import numpy as np
import pytest
import torch

from evolvent.algos.policy_gradient.foreseen import ShareCritic
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, ModelError
from evolvent.core.reward_kinds import keep_reward
from evolvent.credit import token_immediate


def attempt(share, *turns, valid=True):
    e = Episode("t", group="g", id=f"{share}{turns}")
    for tokens in turns:
        e.observe("ask", token_ids=[7], parent=-1)
        e.act("x", token_ids=list(tokens), logp=[-0.5] * len(tokens))
    e.end(terminated=True, valid=valid)
    if share is not None:
        keep_reward(e, "share", share)
    return e


def last_token(rows):
    """States that know the token before them and nothing else."""
    before = [np.concatenate([row.context[-1:], row.tokens[:-1]]) for row in rows]
    return torch.nn.functional.one_hot(torch.as_tensor(np.concatenate(before)).long(), 10).float()


def critic(**more):
    return ShareCritic(last_token, 10, **({"context": 64, "lr": 0.01} | more))


def noted(e):
    return e.notes["share_before"].tolist(), e.notes["share_behind"].tolist()


def test_it_notes_what_is_foreseen_on_both_sides_of_every_token():
    one = critic()
    with torch.no_grad():
        for parameter in one.head.parameters():
            parameter.zero_()
        next(iter(one.head.parameters()))[0] = torch.arange(10.0)
        list(one.head.parameters())[2][0, 0] = -1.0  # sigmoid(-token): the state in sight is the last token
    e = attempt(0.5, (1, 2), (3,))
    seen = one.note([e, attempt(0.25, (4,), valid=False)])
    p = [1 / (1 + np.exp(x)) for x in range(8)]
    before, behind = noted(e)
    assert before == pytest.approx([p[7], p[1], p[7]]), "a turn begins with its question"
    assert behind == pytest.approx([p[1], p[2], p[3]])
    assert seen.share_S.tolist() == pytest.approx([0.5] * 5 + [np.nan] * 2, nan_ok=True)


def test_the_token_that_spoils_a_program_pays_for_it():
    one, generator = critic(), torch.Generator().manual_seed(0)
    batch = [attempt(1.0, (1, 3, 5)), attempt(0.0, (1, 4, 6)), attempt(None, (1, 9), valid=False)]
    first = one.learn(one.note(batch), epochs=1, minibatches=1, grad_clip=1.0, generator=generator)
    later = one.learn(one.note(batch), epochs=300, minibatches=2, grad_clip=1.0, generator=generator)
    assert later["share_loss"] < 0.6 * first["share_loss"]
    one.note(batch)
    right, wrong, _ = np.split(token_immediate.assign(batch).values("token"), [3, 6])
    assert right[1] > 0.4 and wrong[1] < -0.4
    assert abs(right[[0, 2]]).max() < 0.1 and abs(wrong[[0, 2]]).max() < 0.1
    last = one.learn(one.note(batch), epochs=0, minibatches=1, grad_clip=1.0, generator=generator)
    assert last["share_loss"] == 0.0 and 0.3 < last["share_explained"] < 1.0


def test_a_critic_goes_on_where_it_stopped_and_says_that_it_diverged():
    batch = [attempt(1.0, (1, 3)), attempt(0.0, (2, 3))]
    one, other = critic(seed=1), critic(seed=2)
    for _ in range(2):
        one.learn(one.note(batch), epochs=2, minibatches=1, grad_clip=1.0, generator=torch.Generator().manual_seed(0))
        other.load_state_dict(copy.deepcopy(one.state_dict()))
    losses = [
        c.learn(c.note(batch), epochs=2, minibatches=1, grad_clip=1.0, generator=torch.Generator().manual_seed(5))
        for c in (one, other)
    ]
    assert losses[0] == losses[1]
    with torch.no_grad():
        one.head[2].bias.fill_(float("nan"))
    with pytest.raises(ModelError, match="the critic of shares diverged"):
        one.learn(one.note(batch), epochs=1, minibatches=1, grad_clip=1.0, generator=torch.Generator())


def test_what_is_missing_is_said():
    with pytest.raises(BadInput, match="share"):
        critic().note([attempt(None, (1,))])
    with pytest.raises(BadInput, match="no 'share_before'"):
        token_immediate.assign([attempt(1.0, (1,))])
