"""Causal networks over tokens: no token depends on a later one, and going on gives the numbers of starting over."""

import pytest
import torch

from evolvent.algos.decision_mamba import scan
from evolvent.algos.decision_mamba.grains import Mamba
from evolvent.algos.decision_mamba.scan import Mixer, recurrence
from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.learn.sequence.context import Context
from evolvent.models.sequence.steps import StepNet
from evolvent.models.sequence.transformer import Transformer

WIDTH = 16
NETS = {
    "transformer": lambda: Transformer(WIDTH, layers=2, heads=2, dropout=0.2),
    "mixer": lambda: Mixer(WIDTH, states=4),
    "mamba": lambda: Mamba(WIDTH, layers=2, states=4, dropout=0.2),
}


def made(name):
    torch.manual_seed(0)
    net = NETS[name]()
    with torch.no_grad():  # not near zero: what leaks would be lost in rounding
        for parameter in net.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return net


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("training", [True, False])
def test_no_token_depends_on_a_later_one_to_the_last_bit(name, training):
    net = made(name).train(training)
    x = torch.randn(3, 18, WIDTH)
    torch.manual_seed(1)
    before = net(x)
    for changed in (1, 5, 9, 16, 17):  # each place within a step of three tokens
        other = x.clone()
        other[:, changed] = torch.randn(3, WIDTH)
        torch.manual_seed(1)
        after = net(other)
        assert torch.equal(after[:, :changed], before[:, :changed]), changed
        assert not torch.equal(after[:, changed], before[:, changed])


@pytest.mark.parametrize("name", NETS)
def test_going_on_in_pieces_is_reading_everything_at_once(name):
    net = made(name).eval()
    x = torch.randn(4, 18, WIDTH)
    whole, kept, rows = net(x), net.start(6, 18) if name != "mixer" else net.start(6), torch.tensor([4, 0, 5, 2])
    pieces, at = [], 0
    for size in (2, 1, 3, 6, 2, 1, 3):
        pieces.append(net.step(x[:, at : at + size], kept, rows))
        at += size
    assert at == 18 and torch.allclose(torch.cat(pieces, 1), whole, atol=1e-5)
    kept.forget(rows[:2])  # one that starts over is not held up by the others
    assert torch.allclose(net.step(x[:2, :2], kept, rows[:2]), whole[:2, :2], atol=1e-5)


@pytest.mark.parametrize("solve", [scan.in_order, scan.in_pairs])
@pytest.mark.parametrize("steps", [1, 2, 3, 8, 13, 60])
def test_the_recurrence_and_its_gradient_are_those_of_the_loop(steps, solve, monkeypatch):
    monkeypatch.setattr(scan, "_solve", solve)
    torch.manual_seed(0)
    keep, add = (torch.rand(steps, 2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weight = torch.randn(steps, 2, 3, dtype=torch.float64)
    ours, theirs = recurrence(keep, add), loop(keep, add)
    assert torch.allclose(ours, theirs, atol=1e-12)
    for one, other in zip(*(torch.autograd.grad((x * weight).sum(), (keep, add)) for x in (ours, theirs)), strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def loop(keep, add):
    state, states = torch.zeros_like(add[0]), []
    for a, b in zip(keep, add, strict=True):
        state = a * state + b
        states.append(state)
    return torch.stack(states)


@pytest.mark.parametrize("name", ["transformer", "mamba"])
@pytest.mark.parametrize("spec", [ActionSpec(choices=3), ActionSpec(dims=2)])
def test_acting_token_by_token_says_what_the_window_says(name, spec):
    """Attempts that end at different times, and longer than the window: what was said is that of the steps kept."""
    torch.manual_seed(0)
    net = StepNet(TeamSpec(("agent0",), 4, (spec,), limit=30), made(name), WIDTH).eval()
    net.scale.fill_(3.0)
    length, rows = 6, 3
    context = Context(net, length, 5.0, rows)
    courses = [[] for _ in range(rows)]  # of each row: (togo, obs, action, step)
    togo = [5.0] * rows
    for t in range(17):
        obs = torch.randn(rows, 4)
        out = context.see(obs)
        action = torch.randint(3, (rows,)) if spec.choices else torch.rand(rows, 2)
        for r in range(rows):
            if len(courses[r]) == length:
                courses[r] = courses[r][length // 2 :]
            step = courses[r][-1][3] + 1 if courses[r] else 0
            courses[r].append((torch.tensor(togo[r]), obs[r], action[r], step))
            columns = [torch.stack(x)[None] for x in list(zip(*courses[r], strict=True))[:3]]
            read = net(*columns, torch.tensor([[one[3] for one in courses[r]]]))
            assert torch.allclose(out[r], read[0, -1, 1], atol=1e-5), (t, r)
        context.act(action)
        reward, done = torch.rand(rows), torch.tensor([t % 7 == 6, t == 8, False])
        context.gain(reward, done)
        for r in range(rows):
            togo[r] = 5.0 if done[r] else togo[r] - float(reward[r])
            courses[r] = [] if done[r] else courses[r]
